"""MultiStep: SpecInfer's rule for siblings drawn independently."""

from typing import final

import torch

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.errors import require
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.verifiers.recursive import descend, first

ORDERS = ("drawn", "random")


@final
class MultiStep(Verifier):
    """Multi-step speculative sampling (SpecInfer, 2305.09781, Algorithm 2).

    Each of a node's children, drawn i.i.d. from q with duplicates, is tested against what the
    ones before it left of p. Lossless; the first child's test is the token rule.

    order: test the children as "drawn", or at "random" as the paper does. As they are
        exchangeable, both accept as much.

    Raises `ConfigError` for another order.
    """

    lossless = True
    takes = frozenset({"chain", "paths", "iid"})

    def __init__(self, order: str = "drawn") -> None:
        require(order in ORDERS, "verifier.order", order, f"one of {', '.join(ORDERS)}")
        self.order = order

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        choose = first if self.order == "drawn" else _any
        return descend(draft, scores, chance, choose)


def _any(children: object, chance: Chance) -> int:
    return chance.categorical(torch.ones(len(children)))  # type: ignore[arg-type]


@hookimpl
def register_verifiers(register: Register) -> None:
    register("multi_step", MultiStep)
