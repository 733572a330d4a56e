"""Tree replay, Tsubame (arXiv 2609.33652), from the abstract. Exact.

A dynamic tree has its nodes where the drafter's paths are likely:

    value(path) = product of q(token | path before it)

but they are points, accepted with p(x), and draws with min(1, p(x) / q(x)). So keep its shape, how
many children each rank has, and draw tokens into that: nothing is then chosen by its value.
"""

import heapq
from typing import final

from outrider import Context, Pen

from outrider_papers.small_model import SmallModel

Ranks = tuple[int, ...]


@final
class Replayed(SmallModel):
    """Plans a tree by the likeliest paths, and draws tokens into its shape.

    width: the most children of a node. order, counts: of the small model.
    """

    kind = "distinct"

    def __init__(self, width: int = 4, order: int = 2, counts: str = "context") -> None:
        super().__init__(order, counts)
        self.width = width

    def propose(self, context: Context, pen: Pen) -> None:
        text = self.read(context)
        shape = self.plan(text, pen.budget, pen.gamma)
        layer: list[tuple[Ranks, list[int], int]] = [((), [], -1)]
        while layer:
            ranks, path, node = layer.pop(0)
            width = min(shape.get(ranks, 0), pen.room)
            if width > 0:
                children = pen.branch(self.after([*text, *path]), width, after=node)
                for rank, child in enumerate(children):
                    layer.append(((*ranks, rank), [*path, pen.token(child)], child))

    def plan(self, text: list[int], nodes: int, depth: int) -> dict[Ranks, int]:
        """Returns how many children each node has, by the ranks on its path."""
        shape: dict[Ranks, int] = {}
        heap: list[tuple[float, Ranks, list[int]]] = [(0.0, (), [])]
        while heap and sum(shape.values()) <= nodes:
            cost, ranks, path = heapq.heappop(heap)
            if ranks:
                shape[ranks[:-1]] = ranks[-1] + 1
            if len(ranks) < depth:
                logs = self.after([*text, *path]).log_softmax(-1)
                best = logs.topk(min(self.width, len(logs)))
                pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
                for rank, (log, token) in enumerate(pairs):
                    heapq.heappush(heap, (cost - log, (*ranks, rank), [*path, token]))
        return shape
