"""Recursive rejection: the siblings of a draft are tested in turn, each against what the last left."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import ROOT, Draft
from outrider.contract.verifier import Scores, Verdict

Choose = Callable[[Sequence[int], Chance], int]
"""From the children that are left, and a chance, which of them to test next, by place."""


def first(children: Sequence[int], chance: Chance) -> int:
    """Returns the place of the child that was drawn first."""
    return 0


def descend(draft: Draft, scores: Scores, chance: Chance, choose: Choose = first) -> Verdict:
    """Returns the path that recursive rejection accepts, and the token after it.

    With p' the target's distribution, child x of distribution q is accepted with probability min(1, p'(x) / q(x));
    otherwise p' becomes norm(max(0, p' - q)), and the next child is tested. Where none is left
    a token is drawn from p'. Lossless if each child's distribution is the one that it was drawn from, given
    the children tested before it.
    """
    accepted: list[int] = []
    node = ROOT
    while True:
        p = scores.after(node).double()
        p = p / p.sum()
        children = list(draft.children(node))
        taken = ROOT
        while children and taken == ROOT:
            child = children.pop(choose(children, chance))
            token, probs = draft.tokens[child], draft.probs[child]
            rate = float(p[token] if probs is None else p[token] / probs[token])
            if chance.coins(torch.tensor([rate], dtype=torch.float64))[0]:
                taken = child
            else:
                p = left(p, probs, token)
        if taken == ROOT:
            return Verdict(tuple(accepted), chance.categorical(p))
        accepted.append(taken)
        node = taken


def left(
    p: Float[Tensor, "vocab"], probs: Float[Tensor, "vocab"] | None, token: int
) -> Float[Tensor, "vocab"]:
    """Returns norm(max(0, p - q)); p itself where rounding leaves nothing."""
    if probs is None:
        rest = p.clone()
        rest[token] = 0
    else:
        rest = (p - probs.to(p.device)).clamp(min=0)
    mass = rest.sum()
    return rest / mass if mass > 0 else p
