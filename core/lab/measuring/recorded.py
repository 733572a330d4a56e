"""A card in the place of models: a target and drafters whose distributions come from its files."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import final

import torch

from outrider.base.errors import TargetError
from outrider.contract.context import Context
from outrider.contract.draft import Draft, Logits, Verdict
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Session, Target
from outrider.lab.measuring.laws import READINGS, Laws

FILES = "laws"
"""The folder of a card that holds a file for each of its texts."""


@cache
def laws_of(card: str) -> list[Laws]:
    """Returns the laws of each text of a card, in the order of its questions."""
    return [Laws.read(path) for path in sorted(Path(card, FILES).glob("*.safetensors"))]


def _by_prompt(card: str) -> dict[tuple[int, ...], Laws]:
    return {tuple(laws.tokens[: laws.start]): laws for laws in laws_of(card)}


@final
class RecordedTarget(Target):
    """The target of a card, along its own texts.

    card: the folder. model: the model's name. reading: one of `laws.READINGS`.
    """

    trees = False
    no_trees = "a card holds p along texts alone"

    def __init__(self, card: str, model: str, reading: str = READINGS[0]) -> None:
        self.name: str = model
        self._reading, self._laws = reading, _by_prompt(card)
        texts = self._laws.values()
        self.vocab_size: int = next(iter(texts)).vocab_size
        self.eos: frozenset[int] = frozenset(laws.tokens[-1] for laws in texts if laws.ended)

    def open(self, tokens: Sequence[int], needs: frozenset[str] = frozenset()) -> Session:
        return _RecordedSession(self._laws[tuple(tokens)], self._reading)


@final
class _RecordedSession(Session):
    def __init__(self, laws: Laws, reading: str) -> None:
        self._laws, self._reading = laws, reading

    def score(self, draft: Draft) -> Logits:
        text = self._laws.tokens[self._laws.start :]
        if list(draft.tokens) != text:
            raise TargetError("a card holds p along its texts alone: expected protocol=overlap")
        rows = [self._laws.p(row, self._reading) for row in range(len(text))]
        return torch.stack([*rows, rows[-1]])  # nothing is asked of what follows the text

    def commit(self, verdict: Verdict) -> None:
        """Does nothing: the text has ended."""


@final
class RecordedDrafter(Drafter):
    """A drafter of a card, along the texts of its target.

    card: the folder. model: the drafter's name in the card. reading: one of `laws.READINGS`.
    """

    def __init__(self, card: str, model: str, reading: str = READINGS[0]) -> None:
        self._name, self._reading, self._laws = model, reading, _by_prompt(card)
        self.autoregressive: bool = all(laws.autoregressive[model] for laws in self._laws.values())

    def propose(self, context: Context, pen: Pen) -> None:
        start = context.prompt_length
        laws, row = self._laws[tuple(context.tokens[:start])], len(context.tokens) - start
        while pen.open:
            law = laws.q(self._name, row, len(pen), self._reading)
            if law is None:
                return
            _ = pen.write(law) if isinstance(law, int) else pen.draw(law)
