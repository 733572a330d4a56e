"""Goodput: the draft length of most tokens a second, none at all included."""

from typing import final

import numpy as np

from outrider import theory
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.errors import is_int, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.policies.memory import Memory

KEEP = 256
"""Rounds that the times are fitted on, the latest ones."""


@final
class Goodput(Policy):
    """The k of most expected tokens over expected seconds, k = 0 included (SmartSpec, 2406.14066).

    Tokens: 1 + a + ... + a^k of the running acceptance a. Seconds: of k draft tokens, and of a call
    that scores k + 1, a line fitted to the calls seen so far. So the depths, though not the distribution
    of the text, depend on the clock.

    alpha: the running acceptance to begin with. update: the weight of a round in it.
    probe: where drafting does not pay, draft one token every so many rounds, lest what has
        changed go unseen.
    state: a file that keeps what was learned, from run to run.

    What was learned goes on from prompt to prompt.

    Raises `ConfigError` for an alpha or update outside [0, 1], or a probe below 1.
    """

    def __init__(
        self,
        alpha: float = 0.7,
        update: float = 0.15,
        probe: int = 16,
        state: str | None = None,
    ) -> None:
        require(0 <= alpha <= 1, "policy.alpha", alpha, "a number in [0, 1]")
        require(0 <= update <= 1, "policy.update", update, "a number in [0, 1]")
        some = is_int(probe) and probe >= 1
        require(some, "policy.probe", probe, "a whole number of at least 1")
        self.alpha = alpha
        self._update = update
        self._probe = probe
        self._calls: list[tuple[int, float]] = []  # rows scored, seconds
        self._drafts: list[tuple[int, float]] = []  # tokens drafted, seconds
        self._idle = 0
        self._first = True
        self._memory = Memory(self, state, "alpha", "_calls", "_drafts")

    def reset(self) -> None:
        self._first = True  # its call reads the prompt, and says nothing of a round

    def depth(self, gamma: int) -> int:
        call = line(self._calls)
        draft = sum(each for _, each in self._drafts) / max(1, sum(k for k, _ in self._drafts))
        if call is None:
            return gamma if len(self._calls) % 2 == 0 else max(1, gamma // 2)
        base, row = call

        def rate(k: int) -> float:
            seconds = base + row * (k + 1) + draft * k
            return theory.expected_tokens(self.alpha, k) / max(seconds, 1e-9)

        best = max(range(gamma + 1), key=rate)
        self._idle = self._idle + 1 if best == 0 else 0
        return 1 if best == 0 and self._idle % self._probe == 0 else best

    def observe(self, round: Round) -> None:
        if not self._first:
            self._calls = [*self._calls, (round.drafted + 1, round.seconds["score"])][-KEEP:]
            if round.drafted:
                self._drafts = [*self._drafts, (round.drafted, round.seconds["draft"])][-KEEP:]
        self._first = False
        if round.tested:
            rate = round.accepted / round.tested
            self.alpha += self._update * (rate - self.alpha)
        if round.stop is not None:
            self._memory.keep()


def line(points: list[tuple[int, float]]) -> tuple[float, float] | None:
    """Returns base and slope of the line of least squares, neither below 0; None of fewer than
    two different numbers of rows.
    """
    if len({rows for rows, _ in points}) < 2:
        return None
    rows, seconds = np.array(points, dtype=float).T
    slope, base = np.polyfit(rows, seconds, 1)
    if slope < 0:
        return float(seconds.mean()), 0.0
    return (float(base), float(slope)) if base >= 0 else (0.0, float((seconds / rows).mean()))


@hookimpl
def register_policies(register: Register) -> None:
    register("goodput", Goodput)
