"""Hierarchical: the rule of 2601.05724, which turns out to be block verification."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.verifiers.block import blockwise
from outrider.verifiers.token import acceptance


@final
class Hierarchical(Verifier):
    """Tests the whole draft first, then one prefix after another (2601.05724, capped variant).

    Let r_i be the product of p(x) / q(x) over the first i tokens. After a prefix of length i, the
    capped ratio of a next token x is r*(x) = r_i / max(1, r_1, ..., r_i) * p(x) / q(x). The whole
    draft is accepted with probability min(1, r*) of its last token. A shorter prefix is accepted
    with probability D(p, q) / D(q, p), where D(p, q) = sum_x q(x) max(0, r*(x) - 1) and
    D(q, p) = sum_x q(x) max(0, 1 - r*(x)). After it, the next token is drawn in proportion to
    q(x) max(0, r*(x) - 1). Reconstructed from the recursion, not copied from the authors' code.

    Lossless. Every draft gets the same distribution of verdicts as under `block`, because
    r_i / max(1, r_1, ..., r_i) is the weight w_i of block verification.
    """

    lossless = True

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        # log r_0, log r_1, ...: in logarithms, since a product of many ratios may overflow.
        ratios = [0.0, *acceptance(draft, scores).log().cumsum(0).tolist()]
        for length in range(len(draft), 0, -1):
            if length == len(draft):
                rate = math.exp(min(0.0, ratios[length] - max(ratios[:length])))
            else:
                capped = _capped(ratios, length)
                excess = _excess(capped, scores, draft, length)
                rate = _branch_rate(capped, float(excess.sum()))
            if chance.coins(torch.tensor([rate], dtype=torch.float64))[0]:
                return _verdict(ratios, scores, draft, length, chance)
        return _verdict(ratios, scores, draft, 0, chance)

    def accepts_along(
        self, ratios: Float[Tensor, "drafts depths"]
    ) -> Float[Tensor, "drafts depths"]:
        return blockwise(ratios)


def _capped(ratios: list[float], length: int) -> float:
    """Returns r_i / max(1, r_1, ..., r_i) for i = `length`; `ratios` are log r_0, log r_1, ..."""
    return math.exp(ratios[length] - max(ratios[: length + 1]))


def _excess(capped: float, scores: Scores, draft: Draft, length: int) -> Float[Tensor, "vocab"]:
    """Returns q(x) max(0, r*(x) - 1) for each token x after the first `length` of the draft."""
    p = scores.after(length - 1).double()
    return (capped * p - draft.distribution(length, p)).clamp(min=0)


def _branch_rate(capped: float, above: float) -> float:
    """Returns D(p, q) / D(q, p), the probability that a prefix is accepted.

    above: D(p, q). D(q, p) is D(p, q) + 1 - capped, since p and q both sum to one. Summed by itself
        it would be rounding noise where p and q agree.
    """
    below = above + 1 - capped
    return above / below if below > 0 else 1.0


def _verdict(
    ratios: list[float], scores: Scores, draft: Draft, length: int, chance: Chance
) -> Verdict:
    p = scores.after(length - 1)
    if length < len(draft):
        residual = _excess(_capped(ratios, length), scores, draft, length)
        p = residual if residual.any() else p
    return Verdict(tuple(range(length)), chance.categorical(p))


@hookimpl
def register_verifiers(register: Register) -> None:
    register("hierarchical", Hierarchical)
