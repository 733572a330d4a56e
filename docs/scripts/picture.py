"""Draws docs/generation.svg: a generated text, with each token in the colour of its origin.

python docs/scripts/picture.py
"""

import io
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

from outrider import decode
from outrider.cli.screen import STYLES
from outrider.data.jsonl import demo
from outrider.plugins.registry import make

WIDTH = 88


def main() -> None:
    target = make("target", "smollm2")
    prompt = next(prompt for prompt in demo() if "Rewrite the paragraph" in prompt.turns[0])
    text = Text()
    rounds = list(
        decode(
            target,
            make("drafter", "prompt_lookup"),
            make("verifier", "token"),
            target.encode(prompt.turns[0], chat=True),
            gamma=5,
            max_new_tokens=80,
        )
    )
    for round in rounds:
        for piece, origin in zip(round.pieces, round.origins, strict=True):
            word = piece.lstrip(" ")
            text.append(piece[: len(piece) - len(word)]).append(word, style=STYLES[origin])
    emitted = sum(len(round.tokens) for round in rounds)
    console = Console(width=WIDTH, record=True, file=io.StringIO())
    console.print(text)
    console.print()
    legend = Text("  ").join(
        [
            Text("accepted from the draft", style=STYLES["accepted"]),
            Text("recovered after a rejection", style=STYLES["recovered"]),
            Text("bonus from the target", style=STYLES["bonus"]),
        ]
    )
    console.print(legend)
    title = f"prompt_lookup on SmolLM2-135M: {emitted} tokens in {len(rounds)} target calls"
    path = Path(__file__).parents[1] / "generation.svg"
    # With a fixed id, every run writes the same file. Fonts from other sites are left out.
    picture = console.export_svg(title=title, unique_id="generation")
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    main()
