"""Draws architecture.svg: the folders layer by layer, and the round that decoding repeats."""

import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]

HOLDS = {
    "extras": "products: training, serving, pages, bench, engines",
    "cli": "the console script and its commands",
    "lab": "alpha, intervals, runs",
    "testing": "the conformance kit",
    "drafters": "that propose",
    "verifiers": "that accept",
    "policies": "draft lengths",
    "constraints": "grammars",
    "targets": "models whose text is wanted, and their passes",
    "decoding": "the loop, from prompt to text",
    "plugins": "hooks, registry, configs",
    "contract": "the classes that an author of a plugin reads",
    "data": "prompts, scores",
    "theory": "the papers' formulas",
    "base": "errors, folders, the terminal, early ends",
}
"""What each folder or module holds."""

STEPS = {
    "cli": (1, 3, 10),
    "plugins": (2,),
    "targets": (4, 7, 9),
    "decoding": (5,),
    "drafters": (6,),
    "verifiers": (8,),
}
"""The steps of the walk in docs/architecture.md, by where they happen."""

ROUND = (
    (6, "propose", "Drafter.propose(context, pen)", "Draft"),
    (7, "score", "Session.score(draft)", "Scores"),
    (8, "verify", "Verifier.verify(draft, scores, chance)", "Verdict"),
    (9, "commit", "Session.commit(verdict)", "Round"),
)
"""The four steps of a round: number, name, call, and what it hands on."""

LEFT, WIDTH, HEIGHT, GAP = 24, 520, 42, 7
PANEL = 592
STYLE = """
    svg { --card: #ffffff; --edge: #d0d7de; --box: #f6f8fa; --text: #1f2328; --faint: #59636e;
          --step: #0969da; --on-step: #ffffff }
    @media (prefers-color-scheme: dark) {
      svg { --card: #0d1117; --edge: #3d444d; --box: #151b23; --text: #f0f6fc; --faint: #9198a1;
            --step: #4493f8; --on-step: #0d1117 } }
    text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
           fill: var(--text); font-size: 13px }
    .title { font-size: 16px; font-weight: 600 }
    .name { font-family: ui-monospace, Menlo, Consolas, monospace; font-weight: 600 }
    .call { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12px }
    .faint { fill: var(--faint); font-size: 12.5px }
    .card { fill: var(--card); stroke: var(--edge) }
    .box { fill: var(--box); stroke: var(--edge) }
    .step { fill: var(--step) }
    .number { fill: var(--on-step); font-size: 12px; font-weight: 600 }
    .line { fill: none; stroke: var(--faint); stroke-width: 1.5 }
    .tip { fill: var(--faint) }
"""


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'


def badge(x: float, y: float, number: int) -> str:
    return f'<circle class="step" cx="{x}" cy="{y}" r="10"/>' + text(
        x, y + 4, str(number), "number", "middle"
    )


def arrow(points: str) -> str:
    return f'<path class="line" marker-end="url(#tip)" d="{points}"/>'


def layers() -> list[list[str]]:
    """Returns the layers that the import contract names, from the top down."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    names = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [layer.split(" | ") for layer in names]


def stack(rows: list[list[str]], top: int) -> list[str]:
    """Returns the layers: a row each, with a box for each folder."""
    parts = []
    for number, names in enumerate(rows):
        y = top + number * (HEIGHT + GAP)
        width = (WIDTH - GAP * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            x = LEFT + column * (width + GAP)
            parts.append(box(x, y, width, HEIGHT))
            if len(names) == 1:
                parts += [
                    text(x + 12, y + 26, name, "name"),
                    text(x + 140, y + 26, HOLDS[name], "faint"),
                ]
            else:
                parts += [
                    text(x + 12, y + 18, name, "name"),
                    text(x + 12, y + 34, HOLDS[name], "faint"),
                ]
            middle = HEIGHT / 2 if len(names) == 1 else 14
            for position, step in enumerate(reversed(STEPS.get(name, ()))):
                parts.append(badge(x + width - 17 - 25 * position, y + middle, step))
    return parts


def loop(top: int) -> list[str]:
    """Returns the round: four boxes, what each hands on, and the way back."""
    width, height, pitch = 304, 62, 118
    middle = PANEL + width / 2
    parts = [
        text(PANEL, top - 62, "One round of decoding", "title"),
        text(PANEL, top - 42, "repeated until the text ends", "faint"),
        text(middle + 12, top - 10, "Context", "name"),
        arrow(f"M {middle} {top - 24} V {top - 4}"),
    ]
    for index, (number, name, call, result) in enumerate(ROUND):
        y = top + index * pitch
        parts += [
            box(PANEL, y, width, height),
            badge(PANEL + 22, y + 22, number),
            text(PANEL + 42, y + 27, name, "name"),
            text(PANEL + 12, y + 49, call, "call"),
            text(middle + 12, y + height + 34, result, "name"),
        ]
        if index < len(ROUND) - 1:
            parts.append(arrow(f"M {middle} {y + height + 4} V {y + pitch - 4}"))
    bottom = top + (len(ROUND) - 1) * pitch + height
    edge = PANEL + width + 22
    parts.append(
        arrow(
            f"M {middle} {bottom + 4} V {bottom + 46} H {edge} V {top + height / 2}"
            f" H {PANEL + width + 4}"
        )
    )
    return parts


def picture() -> str:
    """Returns the picture, as SVG."""
    rows = layers()
    top, width = 92, 960
    height = top + len(rows) * (HEIGHT + GAP) + 16
    parts = [
        box(1, 1, width - 2, height - 2, "card"),
        text(LEFT, 38, "The layers", "title"),
        text(LEFT, 58, "Each may import those below it, and none above or beside it.", "faint"),
        text(LEFT, 76, "The numbers are the steps of the walk.", "faint"),
        *stack(rows, top),
        *loop(170),
    ]
    content = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="The layers of the code, and the round that decoding repeats">\n'
        f"  <style>{STYLE}  </style>\n"
        '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path class="tip" d="M 0 0 L 8 4 L 0 8 z"/></marker>'
        f"</defs>\n  {content}\n</svg>\n"
    )
