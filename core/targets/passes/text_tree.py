"""TextTree: texts with a common prefix on one cache, which reads shared tokens only once."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT
from outrider.targets.passes.cached_model import CachedModel
from outrider.targets.passes.masks import tree_mask

IDLE = 64
"""Unused tokens stay in the cache until there are this many more than tokens in use."""


@final
class TextTree:
    """The model's logits after texts that continue one root, in a single pass for each call.

    cached: a model whose cache holds the root, or nothing; the first pass then reads the root too.
        If it holds the root, there are no logits for the root itself.
    """

    def __init__(self, cached: CachedModel, root: Sequence[int]) -> None:
        self._cached = cached
        self._root = list(root)
        self._logits: dict[int, Float[Tensor, vocab]] = {}
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._depths: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        """Returns the number of tokens in the cache after the root."""
        return len(self._tokens)

    def logits(self, paths: Sequence[Sequence[int]]) -> Float[Tensor, "paths vocab"]:
        """Returns the logits after each text, which consists of the root and a path."""
        self._tidy(paths)
        known = len(self)
        ends = [self._end(path, known) for path in paths]
        self._read(known)
        shortest = min(map(len, paths))
        self._logits = {
            node: row
            for node, row in self._logits.items()
            if node == ROOT or self._depths[node] >= shortest
        }
        return torch.stack([self._logits[end] for end in ends])

    def _end(self, path: Sequence[int], known: int) -> int:
        """Returns the node at the end of a path, after adding the nodes that are new."""
        node = ROOT
        for depth, token in enumerate(path, start=1):
            child = self._children.get((node, token))
            # A token whose logits were dropped is read again.
            lost = depth == len(path) and child is not None and child < known
            if child is None or (lost and child not in self._logits):
                child = len(self)
                self._tokens.append(token)
                self._parents.append(node)
                self._depths.append(depth)
                self._children[node, token] = child
            node = child
        return node

    def _read(self, known: int) -> None:
        """Feeds the nodes from `known` on, and the root if the cache lacks it."""
        root = [] if self._cached.length else self._cached.read_ahead(self._root)
        tokens = [*root, *self._tokens[known:]]
        if not tokens:
            return
        before = len(self._root) - len(root)
        tree = tree_mask(self._parents, pending=len(root), cached=before, first=known)
        nodes = [*([ROOT] if root else []), *range(known, len(self))]
        rows = self._cached.feed_tree(tokens, len(nodes), tree)
        self._logits |= dict(zip(nodes, rows, strict=True))

    def _tidy(self, paths: Sequence[Sequence[int]]) -> None:
        """Removes the tokens that no path uses, once there are many."""
        live = set[int]()
        for path in paths:
            node: int | None = ROOT
            for token in path:
                node = self._children.get((node, token))  # type: ignore[arg-type]
                if node is None:
                    break
                live.add(node)
        if len(self) <= 2 * len(live) + IDLE:
            return
        retained = sorted(live)
        self._cached.retain_rows(len(self), retained)
        renumbered = {ROOT: ROOT} | {node: new for new, node in enumerate(retained)}
        self._logits = {
            renumbered[node]: row for node, row in self._logits.items() if node in renumbered
        }
        self._tokens = [self._tokens[node] for node in retained]
        self._depths = [self._depths[node] for node in retained]
        self._parents = [renumbered[self._parents[node]] for node in retained]
        self._children = {
            (parent, token): node
            for node, (parent, token) in enumerate(zip(self._parents, self._tokens, strict=True))
        }
