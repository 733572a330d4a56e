"""Budget: how far a lossy rule may take a token's distribution from the target's."""

from dataclasses import dataclass
from typing import Annotated, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import NonNegative, OneOf, checked

DIVERGENCES = {
    "tv": "total variation, half the sum of |h(x) - p(x)|, at most 1",
    "kl": "Kullback-Leibler divergence, the sum of h(x) log(h(x) / p(x)), in nats",
}
"""The divergences of a distribution h from the target's p that a budget can be stated in."""


@final
@checked("verifier")
@dataclass(frozen=True, slots=True)
class Budget:
    """The most that the distribution of a token, given the text before it, may differ from p.

    limit: the most divergence for each token.
    divergence: a key of `DIVERGENCES`.

    Raises `ConfigError` for an unknown divergence, or a limit that is not a number of at least 0.
    """

    limit: NonNegative
    divergence: Annotated[str, OneOf(DIVERGENCES)] = "tv"

    def spent(self, h: Float[Tensor, "vocab"], p: Float[Tensor, "vocab"]) -> float:
        """Returns the divergence of h from p; infinite for "kl" where h > 0 and p = 0."""
        if self.divergence == "tv":
            return float((h - p).abs().sum() / 2)
        return max(0.0, float((torch.xlogy(h, h) - torch.xlogy(h, p)).sum()))

    def ceiling(self, p: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows vocab"]:
        """Returns the highest probability that each token may have.

        For "kl" it follows from Pinsker's inequality: total variation is at most sqrt(KL / 2).
        """
        room = self.limit if self.divergence == "tv" else (self.limit / 2) ** 0.5
        return (p + room).clamp(max=1)
