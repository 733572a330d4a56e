"""Copies what followed the text's last tokens in a large store of texts on disk."""

from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import final

from outrider.base.bounds import Count, checked
from outrider.base.errors import require
from outrider.contract.context import Context
from outrider.contract.draft import ROOT
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.weights import UNTRAINED
from outrider.drafters.parts.texts.datastore import DataStore, Ints


@final
class Rest(Drafter):
    """Copies what followed the same tokens in a store of texts (REST, He et al. 2311.08252).

    Looks for the longest suffix of the text that occurs in a data store. What followed there is
    merged into a trie, in which each token has the number of its occurrences. The draft is the
    trie's likeliest path, or the tree of its most frequent nodes. The store may be far larger than
    memory.

    path: the folder of a store, which `outrider train drafter=rest` writes; "untrained" for a few
        random tokens.
    max_n, min_n: the most and the fewest tokens of the text to look for.
    most: the most occurrences that are merged. Of more, evenly spaced ones are taken.
    tree: whether to write the tree, as many nodes as the run's `budget` allows. Defaults to the
        path, which is a chain.

    Raises `ConfigError` for a min_n above max_n, and in `bind` for a store of another tokenizer.
    """

    @checked("drafter")
    def __init__(
        self, path: str, max_n: Count = 16, min_n: Count = 2, most: Count = 5000, tree: bool = False
    ) -> None:
        require(min_n <= max_n, "drafter.min_n", min_n, f"at most max_n, which is {max_n}")
        self._path = path
        self._lengths, self._most = range(min_n, max_n + 1), most
        self.kind = "deterministic" if tree else "chain"
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is not target:
            self._store = (
                DataStore.untrained(target.vocab_size)
                if self._path == UNTRAINED
                else DataStore.open(Path(self._path).expanduser(), target)
            )
            self._target = target

    def propose(self, context: Context, pen: Pen) -> None:
        text = context.tokens[-self._lengths[-1] :]
        positions = self._store.longest(text, self._lengths, self._most)
        # A node is at most as frequent as its parent, so the most frequent ones form a tree.
        waiting: list[tuple[int, int, tuple[int, int, int, Ints]]] = []
        node, depth, ties = ROOT, 0, count()  # equally frequent branches are taken in order
        while pen.room and len(positions):
            if depth < pen.gamma:
                branches = self._store.following(positions)
                for token, places in branches[: None if self.trees else 1]:
                    branch = token, node, depth + 1, places
                    heappush(waiting, (-len(places), next(ties), branch))
            if not waiting:
                return
            _, _, (token, parent, depth, places) = heappop(waiting)
            pen.write(token, after=parent)
            node, positions = pen.last, places + 1
