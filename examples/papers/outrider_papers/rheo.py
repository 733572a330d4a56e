"""RheoSampling (arXiv 2609.21827), from the abstract and a public kernel's description. Exact.

A node has two children: b, the likeliest token, which is written, and Y, which is drawn from the
rest. Where the tree grows next is decided by

    value(b) = q(b),    value(Y) = min(q(b), 1 - q(b))

times the value of the parent. Y's value is a proxy: it says nothing of which token Y is. With Y's
own q(Y) in its place, unlikely draws would leave the tree, and what stays would not be from q.

A pen can't take back a draw. So Y is drawn when its turn in the queue comes, which is the same
tree: what the paper prunes has never been drawn here. The paper then verifies by optimal transport;
`without_replacement` and `traversal` are exact for it too.
"""

import heapq
import itertools
from typing import final

from outrider import Context, Pen

from outrider_papers.small_model import SmallModel


@final
class Rheo(SmallModel):
    """Writes the likeliest token beside one that is drawn, where the tree is likeliest to go on.

    order, counts: of the small model.
    """

    kind = "distinct"

    def propose(self, context: Context, pen: Pen) -> None:
        text, queue, turn = self.read(context), [], itertools.count()

        def expand(node: int, path: list[int], value: float) -> None:
            logits = self.after([*text, *path])
            best = int(logits.argmax())
            q = float(logits.softmax(-1)[best])
            rest = logits.clone()
            rest[best] = float("-inf")
            heapq.heappush(queue, (-value * q, next(turn), node, path, best, None))
            if q < 1:
                heapq.heappush(queue, (-value * min(q, 1 - q), next(turn), node, path, best, rest))

        if pen.open:
            expand(-1, [], 1.0)
        while queue and pen.room:
            value, _, node, path, token, rest = heapq.heappop(queue)
            if rest is None:
                pen.write(token, after=node)
            else:
                token = pen.draw(rest, after=node)
            if len(path) + 1 < pen.gamma:
                expand(pen.last, [*path, token], -value)
