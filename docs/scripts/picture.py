"""Draws docs/generation.svg: a generated text, with each token in the colour of its origin.

python docs/scripts/picture.py
"""

import io
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

from outrider import generate
from outrider.cli.screen import STYLES, legend
from outrider.plugins.parts import make

WIDTH = 88

PROMPT = "Repeat: Guess a few tokens, check them all at once."


def main() -> None:
    target = make("target", "smollm2")
    generation = generate(target, PROMPT, gamma=5, max_new_tokens=64, chat=True)
    text = Text()
    for round in generation.rounds:
        for piece, origin in zip(round.pieces, round.origins, strict=True):
            word = piece.lstrip(" ")
            text.append(piece[: len(piece) - len(word)]).append(word, style=STYLES[origin])
    console = Console(width=WIDTH, record=True, file=io.StringIO())
    console.print(Text(f"> {PROMPT}\n", style="dim"))
    console.print(text)
    console.print()
    console.print(legend())
    counts = generation.counts
    title = f"prompt_lookup on SmolLM2-135M: {counts.emitted} tokens in {counts.rounds} calls"
    path = Path(__file__).parents[1] / "generation.svg"
    # With a fixed id, every run writes the same file. Fonts from other sites are left out.
    picture = console.export_svg(title=title, unique_id="generation")
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    main()
