"""What a round takes, by the most tokens of its draft, with every length measured in turn."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import final

import numpy as np

from outrider.contract.policy import Policy
from outrider.lab.measuring.measurement import Decoding, Step


@final
class InTurn(Policy):
    """Drafts up to gamma tokens, then none, one, two, ..., so that all lengths share one clock."""

    def __init__(self) -> None:
        self._round = -1

    def reset(self) -> None:
        self._round = -1

    def depth(self, gamma: int) -> int:
        self._round += 1
        return limit(self._round, gamma)


def limit(number: int, gamma: int) -> int:
    """Returns the most draft tokens of a round, by its number in the text, from 0."""
    return (gamma + number) % (gamma + 1)


def seconds(step: Step) -> float:
    return step.draft + step.score + step.verify


def later_rounds(text: Decoding, gamma: int, most: int) -> Iterator[tuple[int, Step]]:
    """Yields the rounds whose drafts could be as long as their turn, with that length.

    The first one also reads the prompt.

    most: the most tokens of a text.
    """
    written = 0
    for number, step in enumerate(text.steps):
        longest = limit(number, gamma)
        if number and longest < most - written:
            yield longest, step
        written += len(step.tokens)


def round_seconds(texts: Iterable[Decoding], gamma: int, most: int) -> list[float]:
    """Returns the seconds of a round by the most tokens of its draft, from 0 [gamma + 1].

    Each is the mean over rounds of that length of what rounds with as many draft tokens take, of
    which the median counts. What no text is long enough for lies on a line between its neighbours.
    """
    by_drafted, by_limit = defaultdict[int, list[float]](list), defaultdict[int, list[int]](list)
    for text in texts:
        for longest, step in later_rounds(text, gamma, most):
            by_drafted[step.drafted].append(seconds(step))
            by_limit[longest].append(step.drafted)
    typical = {drafted: statistics.median(found) for drafted, found in by_drafted.items()}
    means = {
        longest: statistics.fmean(typical[each] for each in drafted)
        for longest, drafted in sorted(by_limit.items())
    }
    return [float(it) for it in np.interp(range(gamma + 1), [*means], [*means.values()])]
