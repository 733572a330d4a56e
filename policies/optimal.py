"""Optimal: the draft length of Theorem 3.8, for the acceptance and cost measured so far."""

from typing import Annotated, ClassVar, final

from outrider import theory
from outrider.base.bounds import NonNegative, Share, checked
from outrider.base.expectations import Above
from outrider.contract.policy import Policy, PolicyExample
from outrider.contract.round import Round
from outrider.policies.saved_state import SavedState


@final
class Optimal(Policy):
    """Chooses the gamma of the greatest expected speedup (2211.17192, Theorem 3.8, section 3.5).

    alpha: the acceptance to assume before any token was tested.
    c: the cost ratio, seconds of a draft token over seconds of a target call. None measures it.
        Then the depths depend on the clock, but the distribution of the text does not.
    weight: how many tested tokens the assumed alpha counts for.
    state: a file that keeps what was learned from run to run.

    It always drafts at least one token, since it would learn nothing otherwise. What it has learned
    carries over from prompt to prompt.
    """

    examples: ClassVar[tuple[PolicyExample, ...]] = (
        PolicyExample(rounds=((8, 0),), gamma=20, settings={"alpha": 0.8, "c": 0.05}),
        # With no draft at all it would learn nothing more.
        PolicyExample(rounds=((1, 0), (1, 0)), gamma=20, settings={"alpha": 0.1, "c": 0.9}),
        # It measures c = .1, and an acceptance of 7 / 11, 7 / 12 and so on.
        PolicyExample(rounds=((5, 0), *((3, 0),) * 3, *((2, 0),) * 5), gamma=5, seconds=(0.1, 1.0)),
    )

    _accepted: float  # tokens, the assumed ones included
    _tested: float
    _draft: float  # seconds
    _score: float
    _drafted: int  # tokens
    _rounds: int  # those with a draft

    @checked("policy")
    def __init__(
        self,
        alpha: Share = 0.7,
        c: NonNegative | None = None,
        weight: Annotated[float, Above(0)] = 10.0,
        state: str | None = None,
    ) -> None:
        self._c = c
        start = {"_accepted": alpha * weight, "_tested": weight}
        nothing = {"_draft": 0.0, "_score": 0.0, "_drafted": 0, "_rounds": 0}
        self._memory = SavedState(self, state, **start, **nothing)

    @property
    def alpha(self) -> float:
        """Returns the acceptance measured so far."""
        return self._accepted / self._tested

    @property
    def c(self) -> float:
        """Returns the cost ratio measured so far, 0 before the first draft."""
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
        self._memory.save_after(round)
