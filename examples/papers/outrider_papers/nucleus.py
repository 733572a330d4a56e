"""Nucleus speculative decoding (arXiv 2610.07822), from the abstract. Lossy above temperature 0.

    accept x    with a(x) = 1 if x is in N(p), else min(1, p(x) / q(x))
    otherwise   draw from norm(max(0, p - q)), as usual

N(p) is the target's nucleus: the smallest set of tokens that holds `mass` of p. The abstract says
that the error of a step is exactly the draft's excess in the nucleus, and it is:

    TV(h, p) = sum over x in N(p) of max(0, q(x) - p(x))

Nothing bounds it without q: a token of N(p) may come out at any rate, all others at most with p.
"""

from typing import Annotated, final

import torch
from torch import Tensor

from outrider import Chance, Draft, Sampling, Scores, Verdict, Verifier, VerifierExample
from outrider.base.bounds import checked
from outrider.base.expectations import Within
from outrider.verifiers.prefix import acceptance, verify_prefix
from outrider.verifiers.token import residual, token_rates


@final
class Nucleus(Verifier):
    """Accepts a token that the token rule accepts, or that is in the target's nucleus. Lossy.

    mass: how much of p the nucleus holds.
    """

    lossless = False
    examples = (
        VerifierExample(
            p=(0.6, 0.3, 0.1),
            q=(0.3, 0.5, 0.2),
            accepted=0.9,
            text=(0.4, 0.5, 0.1),
            settings={"mass": 0.8},
        ),
    )

    @checked("verifier")
    def __init__(self, mass: Annotated[float, Within("(0, 1]")] = 0.9) -> None:
        self.mass = mass

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        inside = self.nucleus(scores.probs)[range(len(draft)), draft.tokens]
        rates = acceptance(draft, scores).masked_fill(inside, 1.0)
        return verify_prefix(draft, scores, chance, rates, residual)

    def accepts(self, q: Tensor, scores: Scores, node: int) -> Tensor:
        return torch.where(self.nucleus(scores.after(node)), 1.0, token_rates(q, scores, node))

    def ceiling(self, scores: Scores) -> Tensor:
        return torch.where(self.nucleus(scores.probs), 1.0, scores.probs)

    def nucleus(self, p: Tensor) -> Tensor:
        return Sampling(temperature=1.0, top_p=self.mass).probs(p.log()) > 0
