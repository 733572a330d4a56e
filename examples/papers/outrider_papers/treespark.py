"""TreeSpark (2609.22098) on parent-conditioned trees (2608.02123), of abstracts and code. Exact.

A drafter such as DSpark has logits L_d for each place d of a block, from one pass, and a cheap head
that knows which token comes before. So children of different parents differ for free:

    z_d(parent) = L_d + bias(parent),    q = softmax(z_d)

The tree grows best first. A node's worth is that of its path, times q calibrated by two numbers:

    worth(child) = worth(parent) sigmoid(scale logit(q) + shift)

and it ends where nothing is worth `theta`. A serving engine sets theta by its load. Siblings are
drawn without replacement. Before each draw the queue knows the likeliest token that is left, but
not the one that will be drawn, so ending there is no choice by value.
"""

import heapq
import itertools
import math
from typing import final

import torch

from outrider import Context, Pen

from outrider_papers.small_model import SmallModel


@final
class TreeSpark(SmallModel):
    """Grows a tree from one block of logits and a bias for each parent, up to a calibrated worth.

    theta: what a node must be worth. scale, shift: the calibration.
    order, counts: of the small model.
    """

    kind = "distinct"

    def __init__(
        self,
        theta: float = 0.02,
        scale: float = 1.0,
        shift: float = 0.0,
        order: int = 2,
        counts: str = "context",
    ) -> None:
        super().__init__(order, counts)
        self.theta, self.scale, self.shift = theta, scale, shift

    def calibrated(self, q: float) -> float:
        odds = math.log(q) - math.log(max(1 - q, 1e-9))
        return 1 / (1 + math.exp(-self.scale * odds - self.shift))

    def propose(self, context: Context, pen: Pen) -> None:
        if not pen.open:
            return
        block = self.block(self.read(context), pen.gamma).log_softmax(-1)
        queue, turn = [], itertools.count()

        def wait(worth: float, node: int, depth: int, q: torch.Tensor) -> None:
            if q.any():  # the likeliest token that may still be drawn
                value = worth * self.calibrated(float(q.max()))
                heapq.heappush(queue, (-value, next(turn), worth, node, depth, q))

        wait(1.0, -1, 0, block[0].exp())
        while queue and pen.room and -queue[0][0] >= self.theta:
            _, _, worth, node, depth, q = heapq.heappop(queue)
            token = pen.draw(q.log(), after=node)
            share, child = float(q[token]), pen.last
            q[token] = 0
            wait(worth, node, depth, q)
            if depth + 1 < pen.gamma:
                bias = self.after([token]) - self.after([])
                conditioned = (block[depth + 1] + bias).softmax(-1)
                wait(worth * self.calibrated(share), child, depth + 1, conditioned)
