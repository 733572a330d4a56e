"""The nodes that a tree may have, found level by level, and the likeliest of them."""

import math
from collections.abc import Iterable
from typing import final

from jaxtyping import Float
from torch import Tensor

from outrider.contract.draft import ROOT
from outrider.contract.pen import Pen


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
