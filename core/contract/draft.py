"""A draft: the tokens that a drafter proposes, as a tree, each with the distribution it was drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

ROOT = -1
"""The node before the first token of a draft: the context itself."""

KINDS = {
    "chain": "no token has a sibling",
    "paths": "chains drawn independently, which part at the first token",
    "iid": "siblings drawn independently, duplicates included",
    "distinct": "siblings drawn without replacement",
    "deterministic": "siblings that were chosen, not drawn",
}
"""How the siblings of a draft come about, which is what a rule has to know of it."""


@final
@dataclass(frozen=True, slots=True)
class Draft:
    """A tree of proposed tokens; a chain is the tree with parents -1, 0, 1, ...

    tokens: the id at each node, parents before their children.
    parents: the node each one continues; -1 is the context.
    distributions: the distribution [vocab] each token was drawn from, given all that was written before it
        (so a sibling drawn without replacement has the distribution without the earlier ones);
        None where the token was written rather than drawn: a point mass on it.
    logits: what the drafter gave for each token, before the run's sampling; None where it was
        written. Policies judge by it, which the distribution at temperature 0 says nothing of.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probs: tuple[Float[Tensor, "vocab"] | None, ...] = ()
    logits: tuple[Float[Tensor, "vocab"] | None, ...] = ()

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> "Draft":
        """Returns the chain of some tokens that nobody drew."""
        count = len(tokens)
        return cls(tuple(tokens), tuple(range(ROOT, count - 1)), (None,) * count)

    @classmethod
    def of_paths(cls, paths: Sequence[tuple[int, ...]]) -> tuple["Draft", list[int]]:
        """Returns the tree of some texts that nobody drew, and the node at the end of each.

        What several begin with is in it once; an empty path ends at the root.
        """
        nodes: dict[tuple[int, ...], int] = {(): ROOT}
        for path in paths:
            for end in range(1, len(path) + 1):
                nodes.setdefault(path[:end], len(nodes) - 1)
        written = list(nodes)[1:]
        tokens = tuple(path[-1] for path in written)
        parents = tuple(nodes[path[:-1]] for path in written)
        return cls(tokens, parents, (None,) * len(written)), [nodes[path] for path in paths]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Returns whether no node has a sibling."""
        return self.parents == tuple(range(-1, len(self) - 1))

    def children(self, node: int) -> list[int]:
        """Returns the nodes that continue `node`, in the order they were written."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def joined(self, other: "Draft") -> "Draft":
        """Returns both trees in one, the nodes of `other` behind its own."""
        own = len(self)
        parents = (parent if parent == ROOT else parent + own for parent in other.parents)
        return Draft(
            self.tokens + other.tokens, (*self.parents, *parents), self.probs + other.probs
        )

    def distribution(self, node: int, like: Float[Tensor, "vocab"]) -> Float[Tensor, "vocab"]:
        """Returns the distribution that `node` was drawn from, a point mass where it was written.

        like: a distribution of the target, for the device, and for the precision of a point mass.
        """
        probs = self.probs[node]
        if probs is not None:
            return probs.to(like.device)
        point = torch.zeros_like(like)
        point[self.tokens[node]] = 1.0
        return point

    def is_of(self, kind: str) -> bool:
        """Returns whether its shape, and whether its tokens were drawn, are those of a kind."""
        if kind == "chain":
            return self.is_chain
        if kind == "paths":
            return max((self.parents.count(node) for node in range(len(self))), default=0) <= 1
        return kind != "deterministic" or all(probs is None for probs in self.probs)

    def path(self, node: int) -> tuple[int, ...]:
        """Returns the nodes from the root to `node`, both ends but the root included."""
        nodes: list[int] = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return tuple(reversed(nodes))
