"""Recursive rejection: tests siblings in turn, each against the residual that the last one left."""

from collections.abc import Callable, Sequence

import torch

from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import ROOT, Draft
from outrider.contract.sampling import likeliest
from outrider.contract.verifier import Probs, Scores, Verdict
from outrider.verifiers.sample_match import matching

Choose = Callable[[Sequence[int], Chance], int]
"""Maps the children still to be tested, and a chance, to the index of the one to test next."""


def first(children: Sequence[int], chance: Chance) -> int:
    """Returns the index of the child that was drawn first."""
    return 0


def descend(draft: Draft, scores: Scores, chance: Chance, choose: Choose = first) -> Verdict:
    """Returns the path that recursive rejection accepts, and the token after it.

    At each node p' begins as the target's distribution. A child x drawn from q is accepted with
    probability min(1, p'(x) / q(x)). If it is rejected, p' becomes norm(max(0, p' - q)) and the
    next child is tested. If all are rejected, the token is drawn from p'. Lossless if q is the
    distribution that the child was drawn from, given the children tested before it.

    At temperature 0, p is a point mass, which the tokens of the path have to be: an accelerator is
    then waited for once, not at each child.
    """
    if scores.sampling.greedy and choose is first:
        best = likeliest(scores.logits).tolist()
        return matching(draft, lambda node, _: best[node + 1])
    accepted: list[int] = []
    node = ROOT
    while True:
        p = wide(scores.after(node))
        p = p / p.sum()
        children = list(draft.children(node))
        chosen = ROOT
        while children and chosen == ROOT:
            child = children.pop(choose(children, chance))
            token, probs = draft.tokens[child], draft.probs[child]
            rate = float(p[token] if probs is None else p[token] / wide(probs[token], p.device))
            if chance.coins(torch.tensor([rate], dtype=torch.float64))[0]:
                chosen = child
            else:
                p = residual(p, probs, token)
        if chosen == ROOT:
            return Verdict(tuple(accepted), chance.categorical(p))
        accepted.append(chosen)
        node = chosen


def residual(p: Probs, probs: Probs | None, token: int) -> Probs:
    """Returns norm(max(0, p - q)), or p itself if rounding leaves nothing.

    q is `probs`, or a point mass on `token` if that is None.
    """
    if probs is None:
        rest = p.clone()
        rest[token] = 0
    else:
        rest = (p - wide(probs, p.device)).clamp(min=0)
    mass = rest.sum()
    return rest / mass if mass > 0 else p
