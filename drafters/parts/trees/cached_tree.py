"""The attention masks of a tree that a cached network reads one depth at a time."""

from collections.abc import Sequence
from typing import final

from outrider.contract.draft import ROOT
from outrider.targets.passes.masks import TreeMask, tree_mask


@final
class CachedTree:
    """The tree of a draft in a cache, after the text.

    known: the number of tokens of the text, which all nodes see.
    """

    def __init__(self, known: int) -> None:
        self._known = known
        self._parents: list[int] = []
        self._nodes: dict[tuple[int, ...], int] = {(): ROOT}

    def add(self, paths: Sequence[Sequence[int]]) -> TreeMask:
        """Adds the last token of each path, and returns its mask: it sees the text and its path.

        The tokens before it were added by earlier calls, and are in the cache in that order.
        """
        first = len(self._parents)
        self._parents += [self._nodes[tuple(path[:-1])] for path in paths]
        # Two siblings with one token have one path, and the same distribution after it.
        self._nodes |= {tuple(path): node for node, path in enumerate(paths, start=first)}
        return tree_mask(self._parents, cached=self._known, first=first)
