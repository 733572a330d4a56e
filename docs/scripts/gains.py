"""Draws docs/gains.svg, tokens per call and speed of each drafter, from a run of `pair`.

python docs/scripts/gains.py
"""

import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

LEFT, TOP, STEP, BAR, WIDTH, GAP = 180, 84, 30, 18, 190, 80
"""Positions and sizes in pixels; `WIDTH` is that of a panel, and `GAP` holds a figure."""

CAPTION = "Qwen2.5-Coder-1.5B-Instruct, {} prompts, temperature {:g}, 95% intervals"

PLAIN = "none"
LOSSLESS = "quantized"
"""The drafter that is the target in other weights: it is no measure of a small model."""

STYLE = """
    svg { --text: #1f2328; --faint: #59636e; --bar: #54aeff; --best: #1a7f37; --plain: #afb8c1 }
    @media (prefers-color-scheme: dark) {
      svg { --text: #f0f6fc; --faint: #9198a1; --bar: #1f6feb; --best: #3fb950; --plain: #656c76 }
    }
    text { font: 14px system-ui, sans-serif; fill: var(--text) }
    .faint { fill: var(--faint); font-size: 12px }
    .title { font-weight: 600; font-size: 15px }
"""


class Figure(NamedTuple):
    """A rate, and both ends of its interval."""

    value: float
    low: float
    high: float


class Row(NamedTuple):
    """A drafter's tokens per call and speedup."""

    drafter: str
    tokens: Figure
    speedup: Figure


def rows(run: Mapping[str, Any]) -> list[Row]:
    """Returns a run's drafters at its own gamma, the fastest first and plain decoding last."""
    found = [
        Row(row["drafter"], figure(row, "block_efficiency"), figure(row, "speedup"))
        for row in run["rows"]
        if not re.fullmatch(r"small_lm \d+", row["drafter"])
    ]
    return sorted(found, key=lambda row: (row.drafter == PLAIN, -row.speedup.value))


def figure(row: Mapping[str, Any], rate: str) -> Figure:
    """Returns a rate of a row; without an interval, both of its ends are the rate."""
    return Figure(row[rate], *(row.get(f"{rate}_{end}", row[rate]) for end in ("low", "high")))


def picture(run: Mapping[str, Any]) -> str:
    """Returns the SVG: two bars with intervals for each drafter."""
    table = rows(run)
    caption = CAPTION.format(len(run["prompts"]), run["temperature"])
    height = TOP + STEP * len(table) + 30
    second = LEFT + WIDTH + GAP
    box = f'viewBox="0 0 {second + WIDTH + GAP} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">',
        f"<style>{STYLE}</style>",
        f'<text class="faint" x="14" y="24">{caption}</text>',
        f'<text class="title" x="{LEFT}" y="66">Tokens per call</text>',
        f'<text class="title" x="{second}" y="66">Speed, plain = 1</text>',
    ]
    best = next(row.drafter for row in table if row.drafter != LOSSLESS)
    for number, row in enumerate(table):
        top = TOP + STEP * number
        name = f"{row.drafter} *" if row.drafter == LOSSLESS else row.drafter
        parts.append(
            f'<text x="{LEFT - 10}" y="{top + 14}" text-anchor="end">{escape(name)}</text>'
        )
        colour = {best: "--best", PLAIN: "--plain", LOSSLESS: "--plain"}.get(row.drafter, "--bar")
        for left, part in ((LEFT, "tokens"), (second, "speedup")):
            unit = WIDTH / max(getattr(other, part).high for other in table)
            parts += bar(getattr(row, part), left, top, unit, colour)
    note = f"* {LOSSLESS} drafts with the target's own weights in eight bits"
    parts.append(f'<text class="faint" x="14" y="{height - 10}">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def bar(shown: Figure, left: int, top: int, unit: float, colour: str) -> list[str]:
    """Returns the elements of a bar whose upper left corner is at `left` and `top`."""
    size = f'width="{shown.value * unit:.0f}" height="{BAR}"'
    elements = [
        f'<rect x="{left}" y="{top}" {size} rx="3" fill="var({colour})"/>',
        f'<text x="{left + shown.high * unit + 8:.0f}" y="{top + 14}">{shown.value:.2f}</text>',
    ]
    if shown.low < shown.high:
        path = f"M{left + shown.low * unit:.0f} {top + BAR / 2} H{left + shown.high * unit:.0f}"
        elements.append(f'<path d="{path}" stroke="var(--text)" stroke-width="2"/>')
    return elements


def draw(run: Path, out: Path) -> None:
    """Writes the plot of a run's figures, from JSON."""
    svg = picture(json.loads(run.read_text(encoding="utf-8")))
    out.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    docs = Path(__file__).parents[1]
    draw(docs / "runs" / "speed-T0.json", docs / "gains.svg")
