"""Verifies a tree from its leaves, so that whole paths are accepted together."""

from dataclasses import dataclass, field
from typing import final

import torch

from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import KINDS, ROOT, Draft, Verdict
from outrider.contract.verifier import Probs, Ratios, Scores, Verifier
from outrider.verifiers.block import blockwise, prefix_rate


@dataclass
class _Node:
    """The state of a node while the tree is traversed.

    p: the target's distribution after the node, or the residual that its rejected children left.
    weight: the weight w of the node.
    children: the children not yet rejected.
    tested: the tokens of the rejected children.
    """

    p: Probs
    weight: float
    children: list[int]
    tested: list[int] = field(default_factory=list)


@final
class Traversal(Verifier):
    """Traversal verification (2505.12398, Algorithm 2).

    Each node has the weight w = min(1, w_parent p(x) / q(x)). The first leaf, in drawing order, is
    accepted with probability w, together with the path to it. If it is rejected, it is removed: the
    parent's p becomes norm(max(0, w p - q)), and its w becomes S / (S + 1 - w), where S is the sum
    before normalisation. A parent without children becomes a leaf.

    Lossless for siblings drawn without replacement. Of i.i.d. siblings with the same token, only
    the first counts. On a chain it is block verification.
    """

    lossless = True
    takes: frozenset[str] = frozenset(KINDS)

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        nodes = {ROOT: _node(draft, scores, ROOT, 1.0)}
        path = [ROOT]
        while True:
            while nodes[path[-1]].children:  # down to the first leaf
                parent = nodes[path[-1]]
                child = parent.children[0]
                token, q = draft.tokens[child], _distribution(draft, child, parent)
                weight = min(1.0, parent.weight * float(parent.p[token]) / float(q[token]))
                nodes[child] = _node(draft, scores, child, weight)
                path.append(child)
            leaf = path[-1]
            rate = torch.tensor([nodes[leaf].weight], dtype=torch.float64)
            if leaf == ROOT or chance.coins(rate)[0]:
                return Verdict(tuple(path[1:]), chance.categorical(nodes[leaf].p))
            path.pop()
            parent = nodes[path[-1]]
            residual = (parent.weight * parent.p - _distribution(draft, leaf, parent)).clamp(min=0)
            mass = float(residual.sum())
            parent.weight = prefix_rate(mass, parent.weight) if mass > 0 else 0.0
            if mass > 0:
                parent.p = residual / mass
            parent.children.remove(leaf)
            parent.tested.append(draft.tokens[leaf])

    def accepts_along(self, ratios: Ratios) -> Ratios:
        return blockwise(ratios)


def _node(draft: Draft, scores: Scores, node: int, weight: float) -> _Node:
    children: dict[int, int] = {}
    for child in draft.children(node):
        children.setdefault(draft.tokens[child], child)
    p = wide(scores.after(node))
    return _Node(p / p.sum(), weight, list(children.values()))


def _distribution(draft: Draft, child: int, parent: _Node) -> Probs:
    """Returns the distribution of a child, given that it differs from its tested siblings."""
    probs = draft.distribution(child, parent.p)
    if not parent.tested or draft.probs[child] is None:
        return probs
    probs = probs.clone()
    probs[parent.tested] = 0
    return probs / probs.sum()
