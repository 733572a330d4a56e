"""The parts of an example: its drafter, acceptance rule, policy and constraint."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.constraint import Constraint
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.extras.fuzzing.example import Example, Settings
from outrider.plugins.registry import make
from outrider.targets.tabular import TabularTarget
from outrider.testing.table_drafters import ChainDrafter, TreeDrafter

TABLE_DRAFTERS: dict[str, type[ChainDrafter | TreeDrafter]] = {
    "staged_chain": ChainDrafter,
    "staged_tree": TreeDrafter,
}
"""The kit's drafters, by their names in examples; each takes a `kind`."""


def make_drafter(settings: Settings, target: Target) -> Drafter:
    """Returns a new drafter: one of the kit's, or any registered one.

    Random weights are the same each time.

    Raises:
        ConfigError: there is no such drafter, or it does not take such settings.
    """
    name = settings["drafter"]
    drafter: Drafter
    if name in TABLE_DRAFTERS:
        drafter = TABLE_DRAFTERS[name](TabularTarget(target.vocab_size), settings["kind"])
    else:
        drafter = make("drafter", settings)
    return drafter


def make_verifier(settings: Settings) -> Verifier:
    """Returns the acceptance rule of an example."""
    verifier: Verifier = make("verifier", settings)
    return verifier


def make_policy(settings: Settings) -> Policy:
    """Returns a new policy, which has learned nothing."""
    policy: Policy = make("policy", settings)
    return policy


def reads_the_clock(settings: Settings) -> bool:
    """Returns whether a policy decides by measured seconds, so that runs can't be repeated."""
    name = settings["policy"]
    return name in ("goodput", "cost_model", "utility") or (
        name in ("bandit", "optimal") and settings.get("c") is None
    )


def constraint_of(example: Example, start: int) -> Callable[[], Constraint | None]:
    """Returns a function that makes the constraint of each text of an example.

    start: the number of ids before the text.
    """
    if example.constraint is None:
        return lambda: None
    return partial(Cycle, start, **example.constraint)


@final
class Cycle(Constraint):
    """Forbids one token at each position in turn, and may end the text at a token.

    start: the number of ids before the text.
    forbidden: the tokens to forbid at successive positions, over and over.
    end: the text ends when this token occurs for the second time. Defaults to never.
    """

    def __init__(self, start: int, forbidden: Sequence[int] = (), end: int | None = None) -> None:
        self._start, self._forbidden, self._end = start, forbidden, end

    def logits(self, ids: Sequence[int], logits: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        if not self._forbidden:
            return logits
        token = self._forbidden[len(ids) % len(self._forbidden)]
        changed = logits.clone()
        changed[token] = float("-inf")
        return changed if bool(torch.isfinite(changed).any()) else logits

    def ends(self, ids: Sequence[int]) -> bool:
        return ids[-1] == self._end and list(ids[self._start :]).count(ids[-1]) >= 2


def drafter_kind(settings: Settings) -> str:
    """Returns the kind of the drafts that a drafter with these settings writes."""
    name: Any = settings["drafter"]
    if name in TABLE_DRAFTERS:
        return str(settings["kind"]) if name == "staged_tree" else "chain"
    drafter: Drafter = make("drafter", settings)
    return drafter.kind
