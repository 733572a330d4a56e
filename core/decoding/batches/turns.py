"""Texts in turns: a target reads something, such as a question, writes on, and reads again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

from outrider.contract.chance import Chance
from outrider.contract.sampling import Sampling


@final
@dataclass(frozen=True, slots=True)
class Turn:
    """What a target reads of a text, and how it goes on.

    ids: what it reads. They replace the id that ended the turn before, if it was one of `eos`.
    sampling, chance, max_new_tokens: of what it writes then, as in `BatchTarget.write`.
    """

    ids: Sequence[int]
    sampling: Sampling
    chance: Chance
    max_new_tokens: int


def without_end(text: list[int], turn: Turn, eos: Collection[int]) -> list[int]:
    """Returns a text without the end of text that a turn's ids replace."""
    return text[:-1] if turn.ids and text and text[-1] in eos else text
