"""Hybrid: the first of several drafters that has a draft."""

from collections.abc import Sequence
from typing import Any, final

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.errors import ConfigError, require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.plugins.registry import make

FIRST = {"drafter": "prompt_lookup", "min_n": 2}
"""A match of two tokens is right more often than a small network, one of a single token is not."""


@final
class Hybrid(Drafter):
    """Asks its drafters in turn, and takes the first draft that is not empty.

    A copy where the text repeats itself, a network where it does not, as SuffixDecoding
    (2411.04975) does with EAGLE. Who drafts depends on the context alone, and each token has the
    distribution of whoever wrote it.

    drafters: each a drafter's name, its settings as {drafter: NAME, SETTING: VALUE}, or a drafter.

    Raises `ConfigError` for none of them, one that has the target answer questions of its own, or
    two that write trees of different kinds.
    """

    def __init__(self, drafters: Sequence[Any] = (FIRST, "eagle")) -> None:
        require(len(drafters) > 0, "drafter.drafters", list(drafters), "one drafter or more")
        self._drafters: tuple[Drafter, ...] = tuple(make("drafter", each) for each in drafters)
        kinds = sorted({each.kind for each in self._drafters if each.trees})
        if len(kinds) > 1:
            raise ConfigError(f"drafter.drafters: expected one kind of trees, not {kinds}")
        if any(each.asks for each in self._drafters):
            raise ConfigError("drafter.drafters: expected none that asks the target for scores")
        self.kind = kinds[0] if kinds else "chain"
        self.needs = frozenset().union(*(each.needs for each in self._drafters))

    def bind(self, target: Target) -> None:
        for each in self._drafters:
            each.bind(target)

    def propose(self, context: Context, pen: Pen) -> None:
        self.propose_batch([(context, pen)])

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        for each in self._drafters:
            each.propose_batch([pair for pair in pairs if not len(pair[1])])


@hookimpl
def register_drafters(register: Register) -> None:
    register("hybrid", Hybrid)
