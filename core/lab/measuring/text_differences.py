"""Where a text departs from the one that it should be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from outrider.contract.context import Tokens

TIE = 1e-3
"""Logits closer than this are a tie in float32: which is larger depends on the order of sums."""


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """Where a text departs from the one that is written without drafts.

    prompt: the number of its prompt. place: the index of the first token that differs.
    gap: between the logits of the two tokens there; None if one text is the beginning of the other.
    """

    prompt: int
    place: int
    gap: float | None

    @property
    def is_tie(self) -> bool:
        """Returns whether the two tokens are equally likely, up to rounding."""
        return self.gap is not None and self.gap < TIE


def find_difference(
    prompt: int,
    text: Sequence[int],
    expected: Sequence[int],
    gap: Callable[[Sequence[int], int, int], float],
) -> Difference | None:
    """Returns where a text departs from the expected one; None if they agree.

    gap: returns how far apart the logits of two tokens are after the beginning of a text.
    """
    if list(text) == list(expected):
        return None
    place = Tokens([*text]).shared(Tokens([*expected]))
    if place == min(len(text), len(expected)):
        return Difference(prompt, place, None)
    return Difference(prompt, place, gap(expected[:place], text[place], expected[place]))
