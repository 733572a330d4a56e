"""Traversal: verifies a tree from its leaves, so that whole paths stand together."""

from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import KINDS, ROOT, Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.verifiers.block import keep


@dataclass
class _Place:
    """A node under way: what is left of the target's distribution after it, its weight, its children."""

    p: Float[Tensor, "vocab"]
    weight: float
    children: list[int]
    tested: list[int] = field(default_factory=list)


@final
class Traversal(Verifier):
    """Traversal verification (2505.12398, Algorithm 2).

    Each node has the weight w = min(1, w_parent p(x) / q(x)). The first leaf, in the order of
    drawing, is accepted with the probability of its weight, and the path to it with it. Otherwise
    it goes, and its parent's p becomes norm(max(0, w p - q)) with the weight S / (S + 1 - w),
    S being what was normalised; a parent without children is a leaf. Lossless for siblings drawn
    without replacement; of i.i.d. ones the first of each token counts. On a chain it is block
    verification.
    """

    lossless = True
    takes = frozenset(KINDS)

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        places = {ROOT: _place(draft, scores, ROOT, 1.0)}
        path = [ROOT]
        while True:
            while places[path[-1]].children:  # down to the first leaf
                above = places[path[-1]]
                child = above.children[0]
                token, q = draft.tokens[child], _distribution(draft, child, above)
                weight = min(1.0, above.weight * float(above.p[token]) / float(q[token]))
                places[child] = _place(draft, scores, child, weight)
                path.append(child)
            leaf = path[-1]
            sure = torch.tensor([places[leaf].weight], dtype=torch.float64)
            if leaf == ROOT or chance.coins(sure)[0]:
                return Verdict(tuple(path[1:]), chance.categorical(places[leaf].p))
            path.pop()
            parent = places[path[-1]]
            rest = (parent.weight * parent.p - _distribution(draft, leaf, parent)).clamp(min=0)
            mass = float(rest.sum())
            parent.weight = keep(mass, parent.weight) if mass > 0 else 0.0
            if mass > 0:
                parent.p = rest / mass
            parent.children.remove(leaf)
            parent.tested.append(draft.tokens[leaf])


def _place(draft: Draft, scores: Scores, node: int, weight: float) -> _Place:
    children: dict[int, int] = {}
    for child in draft.children(node):
        children.setdefault(draft.tokens[child], child)
    p = scores.after(node).double()
    return _Place(p / p.sum(), weight, list(children.values()))


def _distribution(draft: Draft, child: int, parent: _Place) -> Float[Tensor, "vocab"]:
    """Returns the distribution of a child given that its tested siblings are others."""
    probs = draft.distribution(child, parent.p)
    if not parent.tested or draft.probs[child] is None:
        return probs
    probs = probs.clone()
    probs[parent.tested] = 0
    return probs / probs.sum()


@hookimpl
def register_verifiers(register: Register) -> None:
    register("traversal", Traversal)
