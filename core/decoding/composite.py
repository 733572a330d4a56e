"""The base class of drafters that are made of drafters."""

import copy
from collections.abc import Sequence
from typing import Any, Self

from jaxtyping import Float
from torch import Tensor

from outrider.base.calling import calling
from outrider.base.errors import ConfigError
from outrider.contract.context import Context, Features
from outrider.contract.draft import Draft, Logits, Verdict
from outrider.contract.drafter import Drafter
from outrider.contract.target import Target
from outrider.decoding.calls import opened


class CompositeDrafter(Drafter):
    """Passes on to its parts all that a drafter is told, and has the abilities of any of them.

    A subclass writes `propose` or `propose_batch`, in which it has its parts draft by
    `outrider.decoding.calls.call_drafter`, with its own pen or those of
    `outrider.contract.composition`. It sets `kind`, if it may branch. If it learns itself, it
    overrides `observe` or `remember` and calls that of this class, too.

    parts: the drafters that it is made of; in an opened drafter, those of its text.

    Raises `ConfigError` if more than one part asks the target for scores of its own: the answers
    would not tell them apart.
    """

    def __init__(self, parts: Sequence[Drafter]) -> None:
        self.parts: tuple[Drafter, ...] = tuple(parts)
        askers = [type(part).__name__ for part in self.parts if part.asks]
        if len(askers) > 1:
            raise ConfigError(f"drafters {', '.join(askers)}: expected one that asks the target")
        self.needs: frozenset[str] = self._all_needs()

    def _all_needs(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.needs for part in self.parts))

    def _overrides(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(CompositeDrafter, method)

    @property
    def asks(self) -> bool:
        return self._overrides("answer") or any(part.asks for part in self.parts)

    @property
    def observes(self) -> bool:
        return self._overrides("observe") or any(part.observes for part in self.parts)

    @property
    def observes_states(self) -> bool:
        return self._overrides("observe_states") or any(part.observes_states for part in self.parts)

    @property
    def remembers(self) -> bool:
        return self._overrides("remember") or any(part.remembers for part in self.parts)

    def bind(self, target: Target) -> None:
        for part in self.parts:
            with calling("drafter", part):
                part.bind(target)
        self.needs = self._all_needs()  # some read states that depend on the target
        self.models: Sequence[Any] = [model for part in self.parts for model in part.models]

    def open(self) -> Self:
        text = copy.copy(self)
        text.parts = tuple(map(opened, self.parts))
        return text

    def answer(self, probes: Draft, logits: Float[Tensor, "probes vocab"]) -> None:
        for part in self.parts:
            if part.asks:
                with calling("drafter", part):
                    part.answer(probes, logits)

    def observe(self, context: Context, draft: Draft, logits: Logits, verdict: Verdict) -> None:
        for part in self.parts:
            with calling("drafter", part):
                part.observe(context, draft, logits, verdict)

    def observe_states(self, context: Context, draft: Draft, states: Features) -> None:
        for part in self.parts:
            with calling("drafter", part):
                part.observe_states(context, draft, states)

    def remember(self, context: Context) -> None:
        for part in self.parts:
            with calling("drafter", part):
                if part.remembers:
                    part.remember(context)

    @property
    def remembered(self) -> int:
        return max((part.remembered for part in self.parts), default=0)

    def forget(self) -> None:
        for part in self.parts:
            part.forget()
