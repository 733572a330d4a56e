"""A block with a latent, after DBLAST (arXiv 2608.05448), from the abstract. Exact.

Tokens of a block that are drawn independently fit together badly where the text could go on in
several ways. A latent category z that all places share makes them fit, in the same single pass:

    z ~ pi(z),    q(x_1 ... x_K) = sum over z of pi(z) product of q_i(x_i | z)

DBLAST's categories move the states of a network. Here z is a place of the text that a copy may
start from, likelier for a longer match, and q_i(x | z) is a mixture of the copied token and the
plain distribution of place i.

Each token is recorded with q_i(x | z) for the z that was drawn. That is exact, since a rule that is
exact for every draft is exact for every z, and the kit enumerates z as it does all else. It has a
price: a first token is accepted with sum over z of pi(z) sum over x of min(p, q_z), which is never
more than sum over x of min(p, sum over z of pi(z) q_z).
"""

from typing import final

import torch

from outrider import Context, Pen

from outrider_papers.small_model import SmallModel


@final
class LatentBlock(SmallModel):
    """Draws where to copy from, then all places of a block at once.

    trust: how much of q a copied token gets. categories: the most places to copy from.
    order, counts: of the small model.
    """

    def __init__(
        self, trust: float = 0.7, categories: int = 4, order: int = 2, counts: str = "context"
    ) -> None:
        super().__init__(order, counts)
        self.trust, self.categories = trust, categories

    def propose(self, context: Context, pen: Pen) -> None:
        tokens = context.tokens[:]
        ends = [end for end in range(len(tokens) - 1, 0, -1) if tokens[end - 1] == tokens[-1]]
        ends = ends[: self.categories]
        if not pen.open:
            return
        block = self.block(self.read(context), pen.gamma).log_softmax(-1)
        start = len(tokens)
        if ends:
            start = ends[
                pen.latent(torch.tensor([float(matched(tokens, end)) for end in ends]).exp())
            ]
        for place, logits in enumerate(block):
            if pen.open and start + place < len(tokens):
                q = (1 - self.trust) * logits.exp()
                q[tokens[start + place]] += self.trust
                logits = q.log()
            if pen.open:
                pen.draw(logits)


def matched(tokens: list[int], end: int, most: int = 8) -> int:
    """Returns how many tokens before `end` are those at the end of the text, up to `most`."""
    length = 0
    while length < min(most, end) and tokens[end - 1 - length] == tokens[-1 - length]:
        length += 1
    return length
