"""Draws docs/gains.svg: tokens per target call of each drafter, from a table of docs/training.md.

python docs/scripts/gains.py
"""

import re
from html import escape
from pathlib import Path

DOCS = Path(__file__).parents[1]
ROW = r"^\| ([^|]+) \| [^|]+ \| ([\d.]+) \[([\d.]+), ([\d.]+)\] \|[^|]*\|[^|]+\|[^|]+\|$"
"""A row of the table: the drafter, and its tokens per call at temperature 0 with the interval."""

LEFT, TOP, STEP, BAR, UNIT = 170, 62, 30, 18, 200
"""Positions and sizes in pixels; `UNIT` is the width of one token per call."""

STYLE = """
    svg { --text: #1f2328; --faint: #59636e; --bar: #54aeff; --best: #1a7f37; --plain: #afb8c1 }
    @media (prefers-color-scheme: dark) {
      svg { --text: #f0f6fc; --faint: #9198a1; --bar: #1f6feb; --best: #3fb950; --plain: #656c76 }
    }
    text { font: 14px system-ui, sans-serif; fill: var(--text) }
    .faint { fill: var(--faint); font-size: 12px }
    .title { font-weight: 600; font-size: 15px }
"""

Row = tuple[str, float, float, float]
"""A drafter, its tokens per call, and both ends of the interval."""


def rows(page: str) -> list[Row]:
    """Returns the table's rows, the most tokens per call first, and plain decoding as the last."""
    cells = re.findall(ROW, page, re.MULTILINE)
    drafters = [(name, *map(float, figures)) for name, *figures in cells]
    return [*sorted(drafters, key=lambda row: -row[1]), ("none", 1.0, 1.0, 1.0)]


def picture(table: list[Row]) -> str:
    """Returns the SVG: a bar and an interval for each row."""
    height = TOP + STEP * len(table) + 14
    width = LEFT + round(2.1 * UNIT) + 110
    caption = (
        "SmolLM2-135M-Instruct, 240 prompts of Spec-Bench, temperature 0,"
        " chains of up to 4 draft tokens, 95% intervals"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<style>{STYLE}</style>",
        '<text class="title" x="14" y="24">Tokens per call of the target</text>',
        f'<text class="faint" x="14" y="44">{caption}</text>',
    ]
    for number, row in enumerate(table):
        parts += bar(row, TOP + STEP * number, best=number == 0)
    return "\n".join([*parts, "</svg>\n"])


def bar(row: Row, top: int, *, best: bool) -> list[str]:
    """Returns the elements of a row whose upper edge is at `top`."""
    name, value, low, high = row
    colour = "--best" if best else "--plain" if name == "none" else "--bar"
    middle, base = top + BAR / 2, top + BAR - 4
    size = f'width="{value * UNIT:.0f}" height="{BAR}"'
    elements = [
        f'<text x="{LEFT - 10}" y="{base}" text-anchor="end">{escape(name)}</text>',
        f'<rect x="{LEFT}" y="{top}" {size} rx="3" fill="var({colour})"/>',
        f'<text x="{LEFT + high * UNIT + 10:.0f}" y="{base}">{value:.2f}</text>',
    ]
    if low < high:
        path = f"M{LEFT + low * UNIT:.0f} {middle} H{LEFT + high * UNIT:.0f}"
        elements.append(f'<path d="{path}" stroke="var(--text)" stroke-width="2"/>')
    return elements


if __name__ == "__main__":
    page = (DOCS / "training.md").read_text(encoding="utf-8")
    (DOCS / "gains.svg").write_text(picture(rows(page)), encoding="utf-8")
