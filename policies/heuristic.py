"""Two more tokens after a draft that was fully accepted, one fewer after any other."""

from typing import ClassVar, final

from outrider.base.bounds import Count, checked
from outrider.contract.policy import Policy, PolicyExample
from outrider.contract.round import Round


@final
class Heuristic(Policy):
    """The rule of transformers: k + 2 after a draft that was fully accepted, else k - 1.

    k stays between 1 and gamma.

    start: the k of the first round.
    transient: return to `start` with each prompt; if false, k carries over.
    """

    examples: ClassVar[tuple[PolicyExample, ...]] = (
        PolicyExample(rounds=((5, 5), (7, 7), (9, 3), (8, 0), (7, 7), (9, 0)), gamma=9),
        PolicyExample(rounds=((2, 0), (1, 0), (1, 1), (3, 0)), gamma=9, settings={"start": 2}),
        PolicyExample(rounds=((5, 5), (7, 7), (5, 5)), texts=(2, 1), gamma=9),
        PolicyExample(
            rounds=((5, 5), (7, 7), (9, 0)), texts=(2, 1), gamma=9, settings={"transient": False}
        ),
    )

    @checked("policy")
    def __init__(self, start: Count = 5, transient: bool = True) -> None:
        self._start = start
        self._transient = transient
        self._k = start

    def depth(self, gamma: int) -> int:
        self._k = min(self._k, gamma)
        return self._k

    def observe(self, round: Round) -> None:
        if round.drafted:
            fully_accepted = round.accepted == round.tested  # in a tree: to the end of a branch
            self._k = self._k + 2 if fully_accepted else max(1, self._k - 1)

    def reset(self) -> None:
        if self._transient:
            self._k = self._start
