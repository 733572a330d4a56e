"""Heuristic: two more where all was accepted, one fewer where not."""

from typing import final

from outrider.contract.policy import Policy
from outrider.contract.round import Round
from outrider.errors import is_int, require
from outrider.plugins.hookspecs import Register, hookimpl


@final
class Heuristic(Policy):
    """The rule of transformers: k + 2 after a draft that was accepted as a whole, else k - 1.

    start: k of the first round; gamma bounds it in every round, 1 from below.
    transient: start anew with each prompt; otherwise k goes on.

    Raises `ConfigError` for a start below 1.
    """

    def __init__(self, start: int = 5, transient: bool = True) -> None:
        some = is_int(start) and start >= 1
        require(some, "policy.start", start, "a whole number of at least 1")
        self._start = start
        self._transient = transient
        self._k = start

    def depth(self, gamma: int) -> int:
        self._k = min(self._k, gamma)
        return self._k

    def observe(self, round: Round) -> None:
        if round.drafted:
            whole_draft = round.accepted == round.drafted
            self._k = self._k + 2 if whole_draft else max(1, self._k - 1)

    def reset(self) -> None:
        if self._transient:
            self._k = self._start


@hookimpl
def register_policies(register: Register) -> None:
    register("heuristic", Heuristic)
