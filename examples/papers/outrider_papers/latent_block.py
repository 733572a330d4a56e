"""A block with a latent, after DBLAST (arXiv 2608.05448), from the abstract. Exact.

Tokens of a block that are drawn independently fit together badly where the text could go on in
several ways. A latent category z that all places share makes them fit, in the same single pass:

    z ~ pi(z),    q(x_1 ... x_K) = sum over z of pi(z) product of q_i(x_i | z)

DBLAST's categories move the states of a network. Here z is a place of the text to copy from,
likelier for a longer match, and q_i(x | z) mixes the copied token and the plain distribution.

Each token is recorded with q_i(x | z) for the z that was drawn: a rule that is exact for each draft
is exact for every z, and the kit enumerates z. The price is that a first token is accepted with sum
over z of pi(z) sum over x of min(p, q_z), at most sum over x of min(p, sum over z of pi(z) q_z).
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
        tokens, copied = context.tokens[:], list[int]()
        ends = [end for end in range(len(tokens) - 1, 0, -1) if tokens[end - 1] == tokens[-1]]
        if pen.open and ends:
            lengths = [matched(tokens, end) for end in ends[: self.categories]]
            copied = tokens[ends[pen.latent(torch.tensor(lengths).double().exp())] :]
        q = self.block(self.read(context), pen.gamma).softmax(-1)
        q[: len(copied)] *= 1 - self.trust
        for place, token in enumerate(copied[: len(q)]):
            q[place, token] += self.trust
        for logits in q.log():
            if pen.open:
                pen.draw(logits)


def matched(tokens: list[int], end: int, most: int = 8) -> int:
    """Returns how many tokens before `end` are those at the end of the text, up to `most`."""
    length = 0
    while length < min(most, end) and tokens[end - 1 - length] == tokens[-1 - length]:
        length += 1
    return length
