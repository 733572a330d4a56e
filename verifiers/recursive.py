"""Recursive rejection: tests siblings in turn, each against the residual that the last one left."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, final

import torch

from outrider.base.bounds import checked
from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import ROOT, Draft, Verdict
from outrider.contract.sampling import likeliest
from outrider.contract.verifier import Probs, Scores, Verifier, VerifierExample
from outrider.verifiers.sample_match import matching
from outrider.verifiers.token import residual, token_rates

Tested = tuple[int, Probs | None, Sequence[int]]
"""The sibling to test, its distribution, None for a point mass, and those to test after it."""

Select = Callable[[Draft, Sequence[int], Probs, Chance], Tested]
"""Chooses which sibling to test next, given those that are left and what is left of p."""


def first(draft: Draft, siblings: Sequence[int], p: Probs, chance: Chance) -> Tested:
    """Selects the sibling that was drawn first."""
    return siblings[0], draft.probs[siblings[0]], siblings[1:]


def descend(draft: Draft, scores: Scores, chance: Chance, select: Select = first) -> Verdict:
    """Returns the path that recursive rejection accepts, and the token after it.

    At each node p' begins as the target's distribution. A child x drawn from q is accepted with
    probability min(1, p'(x) / q(x)). If it is rejected, p' becomes norm(max(0, p' - q)) and the
    next child is tested. If all are rejected, the token is drawn from p'. Lossless if q is the
    distribution that the child was drawn from, given the children tested before it.

    At temperature 0, p is a point mass, which the tokens of the path have to be: an accelerator is
    then waited for once, not at each child.
    """
    if scores.sampling.greedy and select is first:
        best = likeliest(scores.logits).tolist()
        return matching(draft, lambda node, _: best[node + 1])
    accepted: list[int] = []
    node = ROOT
    while True:
        p = wide(scores.after(node))
        p = p / p.sum()
        siblings: Sequence[int] = draft.children(node)
        chosen = ROOT
        while siblings and chosen == ROOT:
            tested, q, siblings = select(draft, siblings, p, chance)
            token = draft.tokens[tested]
            rate = p[token] if q is None else (p[token] / wide(q[token], p.device)).nan_to_num(0.0)
            if chance.coins(rate[None])[0]:
                chosen = tested
            else:
                p = residual(p, q, token)
                p = p / p.sum()
        if chosen == ROOT:
            return Verdict(tuple(accepted), chance.categorical(p))
        accepted.append(chosen)
        node = chosen


class Recursive(Verifier):
    """A rule that tests siblings in turn, in the order of `select`."""

    lossless = True
    select: Select = staticmethod(first)

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        return descend(draft, scores, chance, self.select)

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return token_rates(q, scores, node)


@final
class MultiStep(Recursive):
    """Multi-step speculative sampling (SpecInfer, 2305.09781, Algorithm 2).

    The children of a node are drawn i.i.d. from q, duplicates included. Each is tested against the
    residual that the children before it left. Lossless; the test of the first child is the token
    rule.

    order: test the children as "drawn", or in "random" order as the paper does. Both accept equally
        often, since the children are exchangeable.
    """

    takes: frozenset[str] = frozenset({"chain", "paths", "iid"})
    examples: ClassVar[tuple[VerifierExample, ...]] = (
        VerifierExample(p=(0.25, 0.75), q=(0.75, 0.25), siblings=2, accepted=0.625),
    )

    @checked("verifier")
    def __init__(self, order: Literal["drawn", "random"] = "drawn") -> None:
        self.order = order
        self.select = first if order == "drawn" else _any


def _any(draft: Draft, siblings: Sequence[int], p: Probs, chance: Chance) -> Tested:
    rest = [*siblings]
    tested = rest.pop(chance.categorical(torch.ones(len(rest))))
    return tested, draft.probs[tested], rest


@final
class WithoutReplacement(Recursive):
    """Recursive rejection without replacement (RSD, 2402.14160, Algorithm 2; EAGLE-1; Sequoia).

    Children are tested in the order in which they were drawn, each with the distribution that it
    was drawn from: q without the children before it. Lossless; the test of the first child is the
    token rule.
    """

    takes: frozenset[str] = frozenset({"chain", "distinct"})
    examples: ClassVar[tuple[VerifierExample, ...]] = (
        VerifierExample(
            p=(0.5, 0.3, 0.2), q=(0.2, 0.3, 0.5), siblings=2, kind="distinct", accepted=0.82
        ),
    )


@final
class Candidates(Recursive):
    """Tests different candidates for a token, such as the k likeliest, as point masses.

    Candidate x is accepted with probability p'(x), where p' is p without the candidates rejected so
    far, normalised (EAGLE-2's code, 2406.16858; lookahead decoding, 2402.02057, Algorithm 4). This
    amounts to drawing from p and asking whether the token is a candidate. It is lossless, and
    optimal for candidates that do not depend on chance.
    """

    takes: frozenset[str] = frozenset({"chain", "deterministic"})
