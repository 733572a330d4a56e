"""Hierarchical speculative decoding: enumeration shows that it is block verification."""

import math
from typing import final

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from outrider import Draft, Sampling, Scores, Verdict, Verifier
from outrider.contract.chance import Chance
from outrider.plugins.parts import make
from outrider.targets.tabular import TabularTarget
from outrider.testing.exact import distribution_of
from outrider.testing.table_drafters import ChainDrafter
from outrider.testing.tiny_targets import draft_after
from outrider.verifiers.block import Block
from outrider.verifiers.prefix import acceptance

SAMPLED = Sampling(temperature=1.0)


@final
class Recursion(Verifier):
    """The rule as the paper states it: the whole draft first, then one prefix after another.

    Let r_i be the product of p(x) / q(x) over the first i tokens. After a prefix of length i, the
    capped ratio of a next token x is r*(x) = r_i / max(1, r_1, ..., r_i) * p(x) / q(x). The whole
    draft is accepted with probability min(1, r*) of its last token. A shorter prefix is accepted
    with probability D(p, q) / D(q, p), where D(p, q) = sum_x q(x) max(0, r*(x) - 1) and
    D(q, p) = sum_x q(x) max(0, 1 - r*(x)). After it, the next token is drawn in proportion to
    q(x) max(0, r*(x) - 1). Reconstructed from the recursion, not copied from the authors' code.

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


def test_hierarchical_is_block_verification_by_another_name() -> None:
    assert isinstance(make("verifier", "hierarchical"), Block)


def verdicts(rule: Verifier, draft: Draft, scores: Scores) -> dict[tuple[int, ...], float]:
    """Returns the exact probability of each (accepted length, next token)."""

    def play(chance: Chance) -> tuple[int, int]:
        verdict = rule.verify(draft, scores, chance)
        return len(verdict.accepted), verdict.next_token

    return distribution_of(play)


@pytest.mark.parametrize("kind", ["drawn", "written", "mixed", "exact", "disjoint"])
def test_every_draft_gets_the_verdicts_of_block(kind: str) -> None:
    """Not on average only: draft by draft, so that outputs and lengths have one distribution."""
    for seed in range(24 if kind == "drawn" else 6):
        target = TabularTarget(3 + seed % 3, 2, seed, sharpness=1.5)
        drafter = ChainDrafter(target, kind, 1000 + seed)
        for gamma in (1, 2, 4):
            draft = draft_after(drafter, target, [0, 2], gamma, seed=seed)
            scores = Scores(target.open([0, 2]).score(draft), SAMPLED)
            here, there = (verdicts(rule, draft, scores) for rule in (Recursion(), Block()))
            assert all(
                here[verdict] == pytest.approx(there[verdict], abs=1e-12)
                for verdict in {*here, *there}
            )
