"""TextTree: texts that share their beginning, on one cache, with each of their tokens read once."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT
from outrider.runtime.cached_model import CachedModel

IDLE = 64
"""Tokens that no text has any more may stay in the cache, up to this many and those in use."""


@final
class TextTree:
    """What a model says after texts that all go on from one root, in one pass each time.

    cached: has the root in its cache, or nothing: the first pass then reads the root as well. Where
        it has, nothing is said of the root itself.
    """

    def __init__(self, cached: CachedModel, root: Sequence[int]) -> None:
        self._cached = cached
        self._root = list(root)
        self._said: dict[int, Float[Tensor, vocab]] = {}
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._depths: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        """Returns the number of tokens in the cache behind the root."""
        return len(self._tokens)

    def logits(self, paths: Sequence[Sequence[int]]) -> Float[Tensor, "paths vocab"]:
        """Returns the logits after each text, the root and a path behind it."""
        self._tidy(paths)
        known = len(self)
        ends = [self._end(path, known) for path in paths]
        self._read(known)
        shortest = min(map(len, paths))
        self._said = {
            node: row
            for node, row in self._said.items()
            if node == ROOT or self._depths[node] >= shortest
        }
        return torch.stack([self._said[end] for end in ends])

    def _end(self, path: Sequence[int], known: int) -> int:
        """Returns the node at the end of a path, with what is new on it written down."""
        node = ROOT
        for depth, token in enumerate(path, start=1):
            child = self._children.get((node, token))
            # What is in the cache without its logits is read anew.
            lost = depth == len(path) and child is not None and child < known
            if child is None or (lost and child not in self._said):
                child = len(self)
                self._tokens.append(token)
                self._parents.append(node)
                self._depths.append(depth)
                self._children[node, token] = child
            node = child
        return node

    def _read(self, known: int) -> None:
        """Feeds the nodes from `known` on, and the root where it was not read."""
        root = [] if self._cached.length else self._root
        fed = [*root, *self._tokens[known:]]
        if not fed:
            return
        before, start = len(root), len(self._root)
        reach = torch.full((len(fed), start + len(self)), float("-inf"))
        reach[:before, :before].masked_fill_(torch.ones(before, before).tril().bool(), 0)
        reach[before:, :start] = 0
        for row, node in enumerate(range(known, len(self)), start=before):
            reach[row, [start + each for each in self._path(node)]] = 0
        depths = [*range(1 - before, 1), *self._depths[known:]]
        model = self._cached.model
        rows = self._cached.feed(
            fed,
            len(fed) - before + bool(root),
            mask=reach.to(model.device, model.dtype)[None, None],
            positions=torch.tensor([depths], device=model.device) + start - 1,
        )
        first = [ROOT] if root else []
        self._said |= dict(zip([*first, *range(known, len(self))], rows, strict=True))

    def _path(self, node: int) -> list[int]:
        nodes = []
        while node != ROOT:
            nodes.append(node)
            node = self._parents[node]
        return nodes

    def _tidy(self, paths: Sequence[Sequence[int]]) -> None:
        """Takes out what no path goes through, once it is much."""
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
        kept = sorted(live)
        self._cached.retain_rows(len(self), kept)
        place = {ROOT: ROOT} | {node: new for new, node in enumerate(kept)}
        self._said = {place[node]: row for node, row in self._said.items() if node in place}
        self._tokens = [self._tokens[node] for node in kept]
        self._depths = [self._depths[node] for node in kept]
        self._parents = [place[self._parents[node]] for node in kept]
        self._children = {
            (parent, token): node
            for node, (parent, token) in enumerate(zip(self._parents, self._tokens, strict=True))
        }
