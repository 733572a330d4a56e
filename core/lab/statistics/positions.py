"""Positions: acceptance by position in the text, by the context's length, by order of prompts."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar, final

from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.statistics.intervals import Interval, interval, ratio

Place = TypeVar("Place", bound=Hashable)

TOKENS = 32
"""The tokens of a stretch of a text."""


@final
@dataclass(frozen=True, slots=True)
class Stretch:
    """The acceptance of rounds that begin in a stretch of positions.

    first, last: the positions, in tokens, or the numbers of the prompts.
    alpha_tested: accepted over tested draft tokens.
    tested: how many draft tokens were tested there.
    """

    first: int
    last: int
    alpha_tested: Interval
    tested: int


def by_position(prompts: Sequence[Sequence[Measurement]]) -> list[Stretch]:
    """Returns acceptance by the tokens of the text before a round, in stretches of 32.

    prompts: the measurements of a drafter, by prompt.
    """
    return _stretches(prompts, lambda _, text, written: (written // TOKENS * TOKENS, TOKENS))


def by_context(prompts: Sequence[Sequence[Measurement]]) -> list[Stretch]:
    """Returns acceptance by the tokens of prompt and text before a round; stretches double.

    Empty for runs of earlier versions, which do not know how long their prompts are.
    """

    def stretch(number: int, text: Decoding, written: int) -> tuple[int, int] | None:
        if not text.prompt_tokens:
            return None
        return _doubling(text.prompt_tokens + written)

    return _stretches(prompts, stretch)


def by_order(prompts: Sequence[Sequence[Measurement]]) -> list[Stretch]:
    """Returns acceptance by the number of a prompt in the run, from 1; stretches double.

    A drafter that remembers texts knows those of the prompts before.
    """
    return _stretches(prompts, lambda number, text, written: _doubling(number))


def _doubling(number: int) -> tuple[int, int]:
    """Returns the first number of the stretch of 1, 2 to 3, 4 to 7, ..., and its length."""
    first = 1 << (number.bit_length() - 1)
    return first, first


def _stretches(
    prompts: Sequence[Sequence[Measurement]],
    stretch: Callable[[int, Decoding, int], tuple[int, int] | None],
) -> list[Stretch]:
    """Returns the acceptance by stretch. stretch: gives its first position and its length."""
    return [
        Stretch(first, first + length - 1, figure, tested)
        for (first, length), (figure, tested) in sorted(by_place(prompts, stretch).items())
    ]


def by_place(
    prompts: Sequence[Sequence[Measurement]], place: Callable[[int, Decoding, int], Place | None]
) -> dict[Place, tuple[Interval, int]]:
    """Returns the share of accepted tokens in each place, and how many were tested there.

    place: that of a round, from the number of its prompt, its text and the tokens before it; None
        for no place.
    """
    counts: dict[Place, dict[int, list[int]]] = defaultdict(dict)
    for prompt, measurements in enumerate(prompts, start=1):
        for text in (m.decoding for m in measurements if m.decoding is not None):
            written = 0
            for step in text.steps:
                where = place(prompt, text, written)
                written += len(step.tokens)
                if where is not None and step.tested:
                    sums = counts[where].setdefault(prompt, [0, 0])
                    sums[0] += step.accepted
                    sums[1] += step.tested
    places: dict[Place, tuple[Interval, int]] = {}
    for where, by_prompt in counts.items():
        accepted, tested = zip(*by_prompt.values(), strict=True)
        figure = interval(ratio(accepted, tested), "logit")
        assert figure is not None, "a place with tested tokens has a figure"
        places[where] = figure, sum(tested)
    return places
