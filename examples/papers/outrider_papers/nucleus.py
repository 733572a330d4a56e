"""Nucleus speculative decoding (arXiv 2610.07822), from the abstract. Lossy.

    accept x    with a(x) = 1 if x is in N(p), else min(1, p(x) / q(x))
    otherwise   draw from norm(max(0, p - q)), as usual

N(p) is the target's nucleus: the smallest set of tokens that holds `mass` of p. The abstract says
that the error of a step is exactly the draft's excess in the nucleus, and it is:

    TV(h, p) = sum over x in N(p) of max(0, q(x) - p(x))

No more can be promised without knowing q: a token of the nucleus may come out as often as a bad
drafter likes. All others come out no oftener than under p. Exact at temperature 0.
"""

from typing import Annotated, final

import torch
from torch import Tensor

from outrider import Chance, Draft, Sampling, Scores, Verdict, Verifier, VerifierExample
from outrider.base.bounds import checked
from outrider.base.expectations import Within
from outrider.verifiers.token import residual, token_rates


@final
class Nucleus(Verifier):
    """Accepts a token that the token rule accepts, or that is in the target's nucleus. Lossy.

    mass: how much of p the nucleus holds.
    """

    lossless = False
    examples = (
        # The first two tokens are the nucleus: q has .2 more on the second than p.
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
        for node, token in enumerate(draft.tokens):
            p = scores.after(node - 1)
            q = draft.distribution(node, like=p)
            if not chance.coins(self.accepts(q, scores, node - 1)[[token]])[0]:
                return Verdict(tuple(range(node)), chance.categorical(residual(p, q, token)))
        return Verdict(tuple(range(len(draft))), chance.categorical(scores.after(len(draft) - 1)))

    def accepts(self, q: Tensor, scores: Scores, node: int) -> Tensor:
        return torch.where(self.nucleus(scores.after(node)), 1.0, token_rates(q, scores, node))

    def ceiling(self, scores: Scores) -> Tensor:
        return torch.where(self.nucleus(scores.probs), 1.0, scores.probs)

    def nucleus(self, p: Tensor) -> Tensor:
        return Sampling(temperature=1.0, top_p=self.mass).probs(p.log()) > 0
