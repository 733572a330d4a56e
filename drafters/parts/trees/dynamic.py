"""Trees of the likeliest nodes, which are found level by level: EAGLE-2's and EAGLE-4's."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import final

from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen
from outrider.drafters.parts.trees.shapes import NextLogits, Shape

DECAY = 0.9999
"""What a node's value is multiplied by for each level: of equal ones, the shallower wins."""


@final
class Candidates:
    """The children of the likeliest nodes of each level (EAGLE-2, 2406.16858, section 4).

    A node's value is the probability of its path, times `decay` for each level.

    width: how many nodes of a level are expanded, and the most children of each.
    """

    def __init__(self, width: int, decay: float = 1.0) -> None:
        self._width, self._log_decay = width, math.log(decay)
        # Parents before children: the path of tokens, the parent, the logarithm of the value.
        self._tokens: list[list[int]] = []
        self._parents, self._values = list[int](), list[float]()
        self._layer = [ROOT]

    @property
    def paths(self) -> list[list[int]]:
        """Returns the tokens up to each node that is to be expanded."""
        return [self._tokens[node] if node != ROOT else [] for node in self._layer]

    @property
    def room(self) -> float:
        """Returns the most that the values of another level can add up to."""
        values = (math.exp(self._values[node]) if node != ROOT else 1.0 for node in self._layer)
        return math.exp(self._log_decay) * sum(values)

    def expand(self, logits: Float[Tensor, "paths vocab"]) -> None:
        """Adds a level.

        logits: those after each of `paths`.
        """
        logs = logits.float().log_softmax(-1)
        best = logs.topk(min(self._width, logs.shape[-1]))
        children = []
        for node, path, scores, ids in zip(
            self._layer, self.paths, best.values.tolist(), best.indices.tolist(), strict=True
        ):
            above = self._values[node] if node != ROOT else 0.0
            for score, token in zip(scores, ids, strict=True):
                if score > -math.inf:
                    children.append(len(self._tokens))
                    self._tokens.append([*path, token])
                    self._parents.append(node)
                    self._values.append(above + score + self._log_decay)
        self._layer = self._ranked(children)[: self._width]

    def likeliest(self, count: int) -> list[int]:
        """Returns the nodes with the greatest values: a tree, however many they are.

        No node is likelier than its parent, and ties go to the earlier node.
        """
        return self._ranked(range(len(self._tokens)))[:count]

    def value(self, node: int) -> float:
        """Returns a node's value."""
        return math.exp(self._values[node])

    def write(self, pen: Pen, nodes: Iterable[int]) -> None:
        """Writes nodes that are a tree, as far as there is room."""
        written = {ROOT: ROOT}
        for node in sorted(nodes):
            if pen.room < 1:
                return
            pen.write(self._tokens[node][-1], after=written[self._parents[node]])
            written[node] = pen.last

    def _ranked(self, nodes: Iterable[int]) -> list[int]:
        return sorted(nodes, key=lambda node: (-self._values[node], node))


@final
@dataclass(frozen=True)
class Dynamic(Shape):
    """EAGLE-2's tree (2406.16858, section 4).

    At each depth, the `width` nodes with the likeliest paths are expanded. In the end, the nodes
    with the likeliest paths are kept, as many as the budget allows.
    """

    width: int
    kind: str = "deterministic"

    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        if pen.gamma < 1 or pen.room < 1:
            return
        tree = Candidates(self.width)
        for _ in range(pen.gamma):
            tree.expand(next_logits(tree.paths))
        tree.write(pen, tree.likeliest(pen.room))


@final
@dataclass(frozen=True)
class CostTree(Shape):
    """The tree with the highest expected tokens over cost, in units of a target call for one token.

    A node is worth the drafter's probability of its path, and a round costs 1 + pass_cost for each
    level that was drafted + node_cost for each node that is scored. At each depth the `width`
    likeliest nodes are expanded, as in EAGLE-2. Another level is drafted while it can pay: what it
    adds is worth at most the nodes that it expands, F, and costs at least pass_cost + node_cost. So
    no deeper tree has a higher rate than the best one so far, R, if F <= R (pass_cost + node_cost).
    In the end the likeliest nodes are kept, as many as give the highest rate; that may be none.

    Made from EAGLE-4's idea of a tree by measured costs. Its code was not read.

    width: the most nodes that are expanded at a depth, and the most children of each.
    pass_cost, node_cost: the cost of a pass of the drafter, and of a token that is scored beside
        the first, as shares of a target call for one token.
    """

    width: int
    pass_cost: float
    node_cost: float
    kind: str = "deterministic"

    def grow(self, pen: Pen, next_logits: NextLogits) -> None:
        tree = Candidates(self.width, DECAY)
        chosen: list[int] = []
        rate, levels = 1.0, 0
        while levels < pen.gamma and tree.room > rate * (self.pass_cost + self.node_cost):
            tree.expand(next_logits(tree.paths))
            levels += 1
            ranked = tree.likeliest(pen.room)
            tokens = accumulate(map(tree.value, ranked), initial=1.0)
            drafting = 1 + self.pass_cost * levels
            rates = [total / (drafting + self.node_cost * n) for n, total in enumerate(tokens)]
            rate = max(rates)
            chosen = ranked[: rates.index(rate)]
        tree.write(pen, chosen)
