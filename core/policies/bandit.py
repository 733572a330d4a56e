"""Bandit: tries draft lengths and keeps to the one that pays most, by UCB1."""

import math
from typing import final

from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.errors import require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.policies.memory import Memory


@final
class Bandit(Policy):
    """UCB1 over the depths 1 to gamma (Auer et al. 2002; BanditSpec, 2505.15141, for the use).

    The reward of a round is its tokens a second, over the most seen so far. Each depth counts its own
    pulls: with a common count the bonus would be alike for all, and the choice greedy.

    explore: the factor of the bonus, sqrt(2) in UCB1.
    c: if given, tokens over 1 + c drafted stands for tokens a second, so that depths do not depend
        on the clock.
    state: a file that keeps what was learned, from run to run.

    What was learned goes on from prompt to prompt.

    Raises `ConfigError` for an explore or c below 0.
    """

    def __init__(
        self, explore: float = math.sqrt(2), c: float | None = None, state: str | None = None
    ) -> None:
        require(explore >= 0, "policy.explore", explore, "a number of at least 0")
        fits = c is None or c >= 0
        require(fits, "policy.c", c, "a number of at least 0, or none")
        self._explore = explore
        self._c = c
        self._pulls: dict[int, int] = {}
        self._gains: dict[int, float] = {}
        self._learned: list[tuple[int, int, float]] = []  # of an arm its pulls and gains, in a file
        self._arm = 1
        self._first = True
        self._memory = Memory(self, state, "_learned")
        for arm, pulls, gains in self._learned:
            self._pulls[arm], self._gains[arm] = pulls, gains

    def reset(self) -> None:
        self._first = True  # its call reads the prompt, and says nothing of a round

    def depth(self, gamma: int) -> int:
        arms = range(1, gamma + 1)
        untried = [arm for arm in arms if not self._pulls.get(arm)]
        self._arm = untried[0] if untried else max(arms, key=self._bound)
        return self._arm

    def _bound(self, arm: int) -> float:
        total, pulls = sum(self._pulls.values()), self._pulls[arm]
        most = max(self._gains[other] / self._pulls[other] for other in self._pulls)
        mean = self._gains[arm] / pulls / most if most > 0 else 0.0
        return mean + self._explore * math.sqrt(math.log(total) / pulls)

    def observe(self, round: Round) -> None:
        if self._first and self._c is None:
            self._first = False
            return
        cost = sum(round.seconds.values()) if self._c is None else 1 + self._c * round.drafted
        self._pulls[self._arm] = self._pulls.get(self._arm, 0) + 1
        gain = len(round.tokens) / max(cost, 1e-9)
        self._gains[self._arm] = self._gains.get(self._arm, 0.0) + gain
        if round.stop is not None:
            self._learned = [(arm, pulls, self._gains[arm]) for arm, pulls in self._pulls.items()]
            self._memory.keep()


@hookimpl
def register_policies(register: Register) -> None:
    register("bandit", Bandit)
