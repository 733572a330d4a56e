"""Draws docs/lossless.svg: where the tokens of one position come from, and that they add up to p.

python docs/scripts/lossless.py
"""

from pathlib import Path

TOKENS = ("river", "lake", "sea", "hill", "road")
TARGET = (0.45, 0.20, 0.15, 0.12, 0.08)
DRAFT = (0.20, 0.40, 0.10, 0.22, 0.08)
"""p and q of each token; both sum to 1."""

PANELS = (
    ("Token x is drafted", "drawn from q"),
    ("x is accepted", "with min(1, p / q)"),
    ("Or x is replaced", "by a draw from max(0, p - q)"),
)
WIDTH, LEFT, BASE, UNIT, STEP, BAR = 204, 16, 250, 380, 36, 24
"""Sizes in pixels; `UNIT` is the height of a probability of 1."""

STYLE = """
    svg { --text: #1f2328; --faint: #59636e; --draft: #afb8c1; --kept: #1a7f37; --new: #cf222e }
    @media (prefers-color-scheme: dark) {
      svg { --text: #f0f6fc; --faint: #9198a1; --draft: #656c76; --kept: #3fb950; --new: #f85149 }
    }
    text { font: 13px system-ui, sans-serif; fill: var(--text) }
    .faint { fill: var(--faint); font-size: 12px }
    .title { font-weight: 600; font-size: 15px }
"""


def picture() -> str:
    """Returns the SVG: three panels with the same tokens."""
    width = WIDTH * len(PANELS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {BASE + 66}" role="img">',
        f"<style>{STYLE}</style>",
    ]
    for number, (title, subtitle) in enumerate(PANELS):
        left = WIDTH * number + LEFT
        parts += [
            f'<text class="title" x="{left}" y="24">{number + 1}. {title}</text>',
            f'<text class="faint" x="{left}" y="44">{subtitle}</text>',
        ]
        for index, token in enumerate(TOKENS):
            x = left + STEP * index
            parts += bars(number, x, TARGET[index], DRAFT[index])
            below = f'x="{x + BAR / 2}" y="{BASE + 18}" text-anchor="middle"'
            parts.append(f'<text class="faint" {below}>{token}</text>')
    kept = sum(map(min, TARGET, DRAFT))
    caption = (
        f"Line: the target's p. Grey: the drafter's q. Green: accepted, {kept:.2f} in all."
        f" Red: replaced, {1 - kept:.2f} in all."
    )
    parts.append(f'<text class="faint" x="{LEFT}" y="{BASE + 50}">{caption}</text>')
    return "\n".join([*parts, "</svg>\n"])


def bars(panel: int, x: int, p: float, q: float) -> list[str]:
    """Returns the elements of one token: its bars, and a line at the height of p."""
    kept = min(p, q)
    shares = {
        0: [("--draft", 0.0, q)],
        1: [("--draft", 0.0, q), ("--kept", 0.0, kept)],
        2: [("--kept", 0.0, kept), ("--new", kept, p)],
    }[panel]
    elements = [
        f'<rect x="{x}" y="{BASE - high * UNIT:.1f}" width="{BAR}"'
        f' height="{(high - low) * UNIT:.1f}" fill="var({colour})"/>'
        for colour, low, high in shares
        if high > low
    ]
    line = f"M{x - 5} {BASE - p * UNIT:.1f} H{x + BAR + 5}"
    return [*elements, f'<path d="{line}" stroke="var(--text)" stroke-width="2"/>']


if __name__ == "__main__":
    (Path(__file__).parents[1] / "lossless.svg").write_text(picture(), encoding="utf-8")
