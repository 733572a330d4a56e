"""String-level rejection sampling, SLRS (arXiv 2502.05202, Algorithm 3), from the paper. Exact.

A drafter with a tokenizer of its own writes a string; the target's tokenizer makes tokens of it. To
verify its first token t by p(t), one needs

    psi(t) = the probability that the drafter's string begins, in target tokens, with t

and accepts t with min(1, p(t) / psi(t)). This psi is a sum over all strings that may follow, which
grows exponentially (Lemma 3.1). With the probability that the drafter spells t in its place, which
"a" has where the string goes on to the token "ab", too, the text is not the target's:
`test_papers.py` has the enumeration. Here the drafter is a model of bytes, and the pen draws t from

    q(t) proportional to product of q(byte | byte before it)    over the bytes of t

normalised over the target's tokens: a draw from that needs no string, no retokenising and no psi.
"""

from itertools import pairwise
from typing import final

import torch

from outrider import Context, Drafter, Pen, Target
from outrider.drafters.parts.texts.spelling import Spelling


@final
class SLRS(Drafter):
    """Draws target tokens by how a model of bytes, counted in the text so far, spells them.

    prior: how many counts the frequency of a byte alone is worth, after each byte.
    """

    needs = frozenset({"tokenizer"})

    def __init__(self, prior: float = 2.0) -> None:
        self.prior = prior

    def bind(self, target: Target) -> None:
        self.spelling = Spelling(target.tokenizer, target.vocab_size)
        spelled = [(token, data) for token, data in enumerate(self.spelling.bytes_of) if data]
        self.tokens = torch.tensor([token for token, _ in spelled])
        self.first = torch.tensor([data[0] for _, data in spelled])
        inside = [(token, a, b) for token, data in spelled for a, b in pairwise(data)]
        self.owner, self.before, self.byte = torch.tensor(inside or [(0, 0, 0)]).T
        self.weight = float(bool(inside))

    def propose(self, context: Context, pen: Pen) -> None:
        text = torch.tensor([0, *self.spelling.join(context.tokens)])
        alone = torch.bincount(text, minlength=256) + 1.0
        pairs = torch.bincount(text[:-1] * 256 + text[1:], minlength=256 * 256).view(256, 256)
        share = pairs + self.prior * alone / alone.sum()
        logs = (share / share.sum(-1, keepdim=True)).log()
        inside = torch.zeros(pen.vocab_size)
        inside.index_add_(0, self.owner, self.weight * logs[self.before, self.byte])
        last = int(text[-1])
        while pen.open:
            logits = torch.full((pen.vocab_size,), float("-inf"))
            logits[self.tokens] = logs[last, self.first] + inside[self.tokens]
            last = self.spelling.bytes_of[pen.draw(logits)][-1]
