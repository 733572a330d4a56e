"""Draft: the tokens that a drafter proposes, each with the distribution it was drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.devices import wide
from outrider.contract.round import ROOT as ROOT  # noqa: PLC0414  its place for all who draft

Logits = Float[Tensor, "nodes+1 vocab"]
"""A target's logits after the context, and after each node of a draft."""

KINDS = {
    "chain": "no token has a sibling",
    "paths": "independent chains that branch at the first token only",
    "iid": "siblings drawn independently, duplicates included",
    "distinct": "siblings drawn without replacement",
    "deterministic": "siblings that were chosen, not drawn",
}
"""The ways in which siblings of a draft can be chosen. A rule is right for some of them only."""


@final
@dataclass(frozen=True, slots=True)
class Draft:
    """A tree of proposed tokens. A chain is the tree with parents -1, 0, 1, ...

    tokens: the id at each node, parents before their children.
    parents: the node that each one continues; -1 stands for the context.
    probs: the distribution [vocab] that each token was drawn from, given everything written before
        it. A sibling drawn without replacement has a distribution without the earlier siblings.
        None stands for a point mass: the token was written, or drawn at temperature 0.
    logits: the drafter's logits for each token, before the run's sampling; None if it was written.
        Policies judge by them, since at temperature 0 the distribution says nothing.
    calls: for each token, the first node that the same call of the pen wrote. They tell which
        siblings were drawn together, and so what kind of draft it is.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probs: tuple[Float[Tensor, "vocab"] | None, ...] = ()
    logits: tuple[Float[Tensor, "vocab"] | None, ...] = ()
    calls: tuple[int, ...] = ()

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> "Draft":
        """Returns a chain of tokens that were written, not drawn."""
        count = len(tokens)
        return cls(tuple(tokens), tuple(range(ROOT, count - 1)), (None,) * count)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Returns whether no node has a sibling and each continues the one before it."""
        return self.parents == tuple(range(-1, len(self) - 1))

    def children(self, node: int) -> list[int]:
        """Returns the nodes that continue `node`, in the order they were written."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def joined(self, other: "Draft") -> "Draft":
        """Returns both trees as one; the nodes of `other` come second.

        A node of `other` may continue node n of this tree: its parent is then -2 - n.
        """
        own = len(self)
        parents = (parent + own if parent >= 0 else -2 - parent for parent in other.parents)
        return Draft(
            self.tokens + other.tokens, (*self.parents, *parents), self.probs + other.probs
        )

    def distribution(self, node: int, like: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        """Returns the distribution that `node` was drawn from, a point mass if it was written.

        like: a distribution of the target; it decides the device, and the dtype of a point mass.
        """
        probs = self.probs[node]
        if probs is not None:
            return probs if probs.device == like.device else wide(probs, like.device)
        point = torch.zeros_like(like)
        point[self.tokens[node]] = 1.0
        return point

    def path(self, node: int) -> tuple[int, ...]:
        """Returns the nodes from below the root to `node` itself."""
        nodes: list[int] = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return tuple(reversed(nodes))


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of an acceptance rule.

    accepted: the accepted nodes, a path from the root.
    next_token: the token that follows them: a recovered token after a rejection, a bonus token
        if the path ends at a leaf.
    """

    accepted: tuple[int, ...]
    next_token: int


def origins_of(draft: Draft, path: Sequence[int]) -> tuple[str, ...]:
    """Returns the origins of the accepted tokens of a draft, and of the target's token after them.

    path: the accepted nodes.
    """
    after = "recovered" if draft.children(path[-1] if path else ROOT) else "bonus"
    return *("accepted",) * len(path), after if len(draft) else "plain"
