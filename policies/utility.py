"""Tries out which draft length pays most, and drafts only while one pays."""

from typing import final

from outrider.base.bounds import Count, checked
from outrider.contract.policy import Policy
from outrider.contract.round import Round


@final
class Utility(Policy):
    """Drafts as long as it pays, and pauses where it does not (Cascade, 2506.20675).

    The utility of a length is its tokens per round, divided by the cost of such a round in steps
    without a draft. A test phase drafts nothing for `trial` rounds, then tries gamma, gamma / 2 and
    so on down to 1 for `trial` rounds each. The set phase after it keeps to the length of the
    greatest utility, or drafts nothing if no utility is above 1. The depths depend on the clock,
    but the distribution of the text does not.

    trial: rounds of each trial.
    keep: rounds of a set phase.

    What it has learned carries over from prompt to prompt.
    """

    @checked("policy")
    def __init__(self, trial: Count = 4, keep: Count = 64) -> None:
        self._trial = trial
        self._keep = keep
        self._plan: list[int] = []  # the lengths still to be tried
        # By length, the tokens and the seconds of each round.
        self._seen: dict[int, list[tuple[int, float]]] = {}
        self._testing = False
        self._length = self._left = 0
        self._first = True

    def reset(self) -> None:
        self._first = True  # this round also reads the prompt, so its time means nothing

    def depth(self, gamma: int) -> int:
        if self._left == 0:
            self._next(gamma)
        return min(self._length, gamma)

    def _next(self, gamma: int) -> None:
        if not self._testing:
            halves = [gamma >> step for step in range(gamma.bit_length())]
            self._plan, self._seen, self._testing = [0, *halves], {}, True
        if self._plan:
            self._length, self._left = self._plan.pop(0), self._trial
        else:
            self._length, self._left, self._testing = best(self._seen), self._keep, False

    def observe(self, round: Round) -> None:
        if self._first:
            self._first = False
            return
        self._left = max(0, self._left - 1)
        if self._testing:
            seconds = sum(round.seconds.values())
            self._seen.setdefault(self._length, []).append((len(round.tokens), seconds))


def best(seen: dict[int, list[tuple[int, float]]]) -> int:
    """Returns the length of the greatest utility, or 0 if none is above 1.

    seen: for each length, 0 among them, the tokens and seconds of its rounds.
    """
    plain = seen[0]
    step = sum(seconds for _, seconds in plain) / sum(tokens for tokens, _ in plain)
    utilities = {
        length: step * sum(t for t, _ in rounds) / max(sum(s for _, s in rounds), 1e-9)
        for length, rounds in seen.items()
    }
    utilities[0] = 1.0
    return max(utilities, key=lambda length: utilities[length])
