"""Optimal: the draft length of Theorem 3.8, from the acceptance and the cost seen so far."""

from typing import final

from outrider import theory
from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.errors import require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.policies.memory import Memory


@final
class Optimal(Policy):
    """The gamma of greatest expected speedup (2211.17192, Theorem 3.8 and section 3.5).

    alpha: what to take the acceptance for before any token was tested.
    c: seconds of a draft token over those of a target call; none measures it as it goes, so that
        the depths, though not the distribution of the text, depend on the clock.
    state: a file that keeps what was learned, from run to run.
    weight: of what was expected beforehand, in tokens: alpha counts as that many.

    It drafts at least one token, without which nothing more would be learned. What was learned goes
    on from prompt to prompt.

    Raises `ConfigError` for an alpha outside [0, 1], or a c or weight below 0.
    """

    def __init__(
        self,
        alpha: float = 0.7,
        c: float | None = None,
        weight: float = 10.0,
        state: str | None = None,
    ) -> None:
        require(0 <= alpha <= 1, "policy.alpha", alpha, "a number in [0, 1]")
        fits = c is None or c >= 0
        require(fits, "policy.c", c, "a number of at least 0, or none")
        require(weight > 0, "policy.weight", weight, "a number above 0")
        self._accepted, self._tested = alpha * weight, weight
        self._c = c
        self._draft = self._score = 0.0
        self._drafted = self._rounds = 0
        names = ("_accepted", "_tested", "_draft", "_score", "_drafted", "_rounds")
        self._memory = Memory(self, state, *names)

    @property
    def alpha(self) -> float:
        """Returns the acceptance as seen so far."""
        return self._accepted / self._tested

    @property
    def c(self) -> float:
        """Returns the cost ratio as seen so far, 0 before the first draft."""
        if self._c is not None:
            return self._c
        if not (self._drafted and self._score):
            return 0.0
        return (self._draft / self._drafted) / (self._score / self._rounds)

    def depth(self, gamma: int) -> int:
        return max(1, theory.optimal_gamma(self.alpha, self.c, gamma))

    def observe(self, round: Round) -> None:
        self._accepted += round.accepted
        self._tested += round.tested
        if round.drafted:
            self._draft += round.seconds["draft"]
            self._drafted += round.drafted
            self._score += round.seconds["score"]
            self._rounds += 1
        if round.stop is not None:
            self._memory.keep()


@hookimpl
def register_policies(register: Register) -> None:
    register("optimal", Optimal)
