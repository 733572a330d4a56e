"""Goodput: the draft length with the most expected tokens per second, 0 included."""

from collections.abc import Sequence
from typing import final

import numpy as np

from outrider import theory
from outrider.base.bounds import Share, checked
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.policies.saved_state import SavedState

WINDOW = 256
"""The number of latest rounds whose times count."""

UPDATE = 0.15
"""The weight of the newest round in the running acceptance."""

PROBE = 16
"""While drafting does not pay, a token is drafted once in so many rounds: that may change."""


@final
class Goodput(Policy):
    """Chooses the k with the most expected tokens per expected second (SmartSpec, 2406.14066).

    The expected tokens are 1 + a + ... + a^k for the running acceptance a. The expected seconds are
    those of k draft tokens plus those of a target call that scores k + 1 rows, by a line fitted to
    earlier calls. So the depths depend on the clock, but the distribution of the text does not.

    alpha: the running acceptance to start from.
    state: a file that keeps what was learned from run to run.

    What it has learned carries over from prompt to prompt.
    """

    alpha: float
    _calls: list[tuple[int, float]]  # rows scored, seconds
    _drafts: list[tuple[int, float]]  # tokens drafted, seconds

    @checked("policy")
    def __init__(self, alpha: Share = 0.7, state: str | None = None) -> None:
        self._memory = SavedState(self, state, alpha=alpha, _calls=[], _drafts=[])
        self._idle = 0
        self._first = True

    def reset(self) -> None:
        self._first = True  # this round also reads the prompt, so its time means nothing

    def depth(self, gamma: int) -> int:
        call = coefficients([((1.0, rows), seconds) for rows, seconds in self._calls])
        spent = sum(seconds for _, seconds in self._drafts)
        draft = spent / max(1, sum(tokens for tokens, _ in self._drafts))
        if call is None:
            return gamma if len(self._calls) % 2 == 0 else max(1, gamma // 2)
        base, row = call

        def rate(k: int) -> float:
            seconds = base + row * (k + 1) + draft * k
            return theory.expected_tokens(self.alpha, k) / max(seconds, 1e-9)

        best = max(range(gamma + 1), key=rate)
        self._idle = self._idle + 1 if best == 0 else 0
        return 1 if best == 0 and self._idle % PROBE == 0 else best

    def observe(self, round: Round) -> None:
        if not self._first:
            self._calls = [*self._calls, (round.drafted + 1, round.seconds["score"])][-WINDOW:]
            if round.drafted:
                self._drafts = [*self._drafts, (round.drafted, round.seconds["draft"])][-WINDOW:]
        self._first = False
        if round.tested:
            rate = round.accepted / round.tested
            self.alpha += UPDATE * (rate - self.alpha)
        self._memory.save_after(round)


def coefficients(points: Sequence[tuple[Sequence[float], float]]) -> list[float] | None:
    """Returns the least squares coefficients, none below 0; None unless two points differ.

    points: of each call, what its time is proportional to, and its seconds.
    """
    if len({tuple(quantities) for quantities, _ in points}) < 2:
        return None
    from scipy.optimize import nnls  # takes long to import

    quantities, seconds = zip(*points, strict=True)
    values, _ = nnls(np.array(quantities), np.array(seconds))
    return [float(value) for value in values]
