"""Hybrid: takes the draft of the first drafter, of several, that has one."""

from collections.abc import Sequence
from typing import Any, final

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.errors import ConfigError, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.plugins.registry import make

COPY = {"drafter": "prompt_lookup", "min_n": 2}
"""A match of two tokens is right more often than a small network; a match of one token is not."""


@final
class Hybrid(Drafter):
    """Asks its drafters in turn, and takes the first draft that is not empty.

    By default it copies where the text repeats itself and asks a network elsewhere, as
    SuffixDecoding (2411.04975) does with EAGLE. Which drafter is chosen depends only on the
    context, and each token is recorded with the distribution of the drafter that wrote it.

    drafters: for each, its name, its settings as {drafter: NAME, SETTING: VALUE}, or a drafter.

    Raises `ConfigError` if the list is empty, if a drafter asks the target for scores of its own,
    or if two drafters write trees of different kinds.
    """

    def __init__(self, drafters: Sequence[Any] = (COPY, "eagle")) -> None:
        require(len(drafters) > 0, "drafter.drafters", list(drafters), "one drafter or more")
        self._drafters: tuple[Drafter, ...] = tuple(make("drafter", entry) for entry in drafters)
        kinds = sorted({drafter.kind for drafter in self._drafters if drafter.trees})
        if len(kinds) > 1:
            raise ConfigError(f"drafter.drafters: expected one kind of trees, not {kinds}")
        if any(drafter.asks for drafter in self._drafters):
            raise ConfigError("drafter.drafters: expected none that asks the target for scores")
        self.kind = kinds[0] if kinds else "chain"
        self.needs = frozenset().union(*(drafter.needs for drafter in self._drafters))

    def bind(self, target: Target) -> None:
        for drafter in self._drafters:
            drafter.bind(target)

    def propose(self, context: Context, pen: Pen) -> None:
        self.propose_batch([(context, pen)])

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        for drafter in self._drafters:
            drafter.propose_batch([(context, pen) for context, pen in pairs if not len(pen)])


@hookimpl
def register_drafters(register: Register) -> None:
    register("hybrid", Hybrid)
