"""SpecInfer's rule for siblings drawn independently."""

from collections.abc import Sequence
from typing import ClassVar, Literal, final

import torch

from outrider.base.bounds import checked
from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Probs, Scores, Verdict, Verifier, VerifierExample
from outrider.verifiers.recursive import descend, first
from outrider.verifiers.token import token_rates


@final
class MultiStep(Verifier):
    """Multi-step speculative sampling (SpecInfer, 2305.09781, Algorithm 2).

    The children of a node are drawn i.i.d. from q, duplicates included. Each is tested against the
    residual that the children before it left. Lossless; the test of the first child is the token
    rule.

    order: test the children as "drawn", or in "random" order as the paper does. Both accept equally
        often, since the children are exchangeable.

    Raises `ConfigError` if the order is unknown.
    """

    lossless = True
    takes: frozenset[str] = frozenset({"chain", "paths", "iid"})
    examples: ClassVar[tuple[VerifierExample, ...]] = (
        VerifierExample(p=(0.25, 0.75), q=(0.75, 0.25), siblings=2, accepted=0.625),
    )

    @checked("verifier")
    def __init__(self, order: Literal["drawn", "random"] = "drawn") -> None:
        self.order = order

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        choose = first if self.order == "drawn" else _random
        return descend(draft, scores, chance, choose)

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return token_rates(q, scores, node)


def _random(children: Sequence[int], chance: Chance) -> int:
    return chance.categorical(torch.ones(len(children)))
