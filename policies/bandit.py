"""Bandit: tries the draft lengths and settles on the one that pays most, by UCB1."""

import math
from typing import ClassVar, final

from outrider.base.bounds import NonNegative, checked
from outrider.contract.policy import Policy, PolicyExample
from outrider.contract.round import Round
from outrider.policies.saved_state import SavedState

EXPLORE: float = 2**0.5
"""The factor of the bonus in UCB1."""


@final
class Bandit(Policy):
    """UCB1 over the depths 1 to gamma (Auer et al. 2002; for drafting: BanditSpec, 2505.15141).

    The reward of a round is its tokens per second, divided by the best mean of any depth so far.
    Each depth counts its own pulls: with a common count all depths would get the same bonus, and
    the choice would be greedy.

    c: a fixed cost ratio. With it the cost of a round is 1 + c * drafted and not its seconds, so
        that the depths do not depend on the clock.
    state: a file that keeps what was learned from run to run.

    What it has learned carries over from prompt to prompt.
    """

    examples: ClassVar[tuple[PolicyExample, ...]] = (
        # Each depth once, and then by gain and bonus; without a bonus it would stay at 2.
        PolicyExample(
            rounds=((1, 1), (2, 2), (3, 0), (2, 2), (1, 1), (2, 2), (3, 0)),
            gamma=3,
            settings={"c": 0.1},
        ),
    )

    _learned: list[tuple[int, int, float]]  # rounds and gains of each arm

    @checked("policy")
    def __init__(self, c: NonNegative | None = None, state: str | None = None) -> None:
        self._c = c
        self._arm = 1
        self._first = True
        self._memory = SavedState(self, state, _learned=[])
        # By arm, the rounds and the sum of tokens per second.
        self._arms = {arm: (pulls, gains) for arm, pulls, gains in self._learned}

    def reset(self) -> None:
        self._first = True  # this round also reads the prompt, so its time means nothing

    def depth(self, gamma: int) -> int:
        arms = range(1, gamma + 1)
        untried = [arm for arm in arms if arm not in self._arms]
        self._arm = untried[0] if untried else max(arms, key=self._bound)
        return self._arm

    def _bound(self, arm: int) -> float:
        total = sum(pulls for pulls, _ in self._arms.values())
        best = max(gains / pulls for pulls, gains in self._arms.values())
        pulls, gains = self._arms[arm]
        mean = gains / pulls / best if best > 0 else 0.0
        return mean + EXPLORE * math.sqrt(math.log(total) / pulls)

    def observe(self, round: Round) -> None:
        if self._first and self._c is None:
            self._first = False
            return
        cost = sum(round.seconds.values()) if self._c is None else 1 + self._c * round.drafted
        pulls, gains = self._arms.get(self._arm, (0, 0.0))
        self._arms[self._arm] = pulls + 1, gains + len(round.tokens) / max(cost, 1e-9)
        self._learned = [(arm, *sums) for arm, sums in self._arms.items()]
        self._memory.save_after(round)
