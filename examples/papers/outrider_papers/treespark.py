"""TreeSpark (2609.22098) on parent-conditioned trees (2608.02123), of abstracts and code. Exact.

DSpark, for one, has logits L_d for each place d of a block, and a head that knows the token before.
The tree grows best first, while a path is worth `theta`, which a serving engine sets by its load:

    z_d(parent) = L_d + bias(parent),    q = softmax(z_d)
    worth(child) = worth(parent) sigmoid(scale logit(q) + shift)

Siblings are drawn without replacement. Before each draw the queue knows the likeliest token that is
left, but not the one that will be drawn, so ending there is no choice by value.
"""

import heapq
import itertools
from typing import final

from torch import Tensor

from outrider import Context, Pen

from outrider_papers.small_model import SmallModel


@final
class TreeSpark(SmallModel):
    """Grows a tree from one block of logits and a bias for each parent, up to a calibrated worth.

    theta: what a node must be worth. scale, shift: the calibration. counts: of the small model.
    """

    kind = "distinct"

    def __init__(
        self, theta: float = 0.02, scale: float = 1.0, shift: float = 0.0, counts: str = "context"
    ) -> None:
        super().__init__(counts=counts)
        self.theta, self.scale, self.shift = theta, scale, shift

    def propose(self, context: Context, pen: Pen) -> None:
        block = self.block(self.read(context), pen.gamma).log_softmax(-1)
        queue, turn = [], itertools.count()

        def wait(worth: float, node: int, depth: int, q: Tensor) -> None:
            if q.any():
                value = worth * self.calibrated(q.max())
                heapq.heappush(queue, (-value, next(turn), worth, node, depth, q))

        wait(1.0, -1, 0, block[0].exp())
        while pen.gamma and pen.room and queue and -queue[0][0] >= self.theta:
            _, _, worth, node, depth, q = heapq.heappop(queue)
            token = pen.draw(q.log(), after=node)
            path = worth * self.calibrated(q[token])
            if depth + 1 < pen.gamma:
                logits = block[depth + 1] + self.after([token]) - self.after([])
                wait(path, pen.last, depth + 1, logits.softmax(-1))
            q[token] = 0
            wait(worth, node, depth, q)

    def calibrated(self, q: Tensor) -> float:
        return float((self.scale * q.logit(1e-9) + self.shift).sigmoid())
