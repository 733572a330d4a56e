"""The tree with the most expected tokens for its cost, as EAGLE-4 shapes its drafts."""

from dataclasses import dataclass
from itertools import accumulate
from typing import final

from outrider.contract.pen import Pen
from outrider.drafters.parts.trees.candidates import Candidates
from outrider.drafters.parts.trees.shapes import NextLogits, Shape

DECAY = 0.9999
"""What a node's value is multiplied by for each level: of equal ones, the shallower wins."""


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
