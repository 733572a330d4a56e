"""Accepts as much as a divergence budget for each token allows. Lossy."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from outrider.base.bounds import NonNegative, checked
from outrider.base.expectations import OneOf
from outrider.contract.verifier import DIVERGENCES, Budget, Probs, VerifierExample
from outrider.verifiers.towards import STEPS, Towards, within

Floats = NDArray[np.float64]


@final
class Cactus(Towards):
    """Constrained acceptance (Cactus, 2604.04987): the most acceptance within a divergence budget.

    The token rule runs with h in place of p, where h has the largest sum_x min(h(x), q(x)) among
    the distributions whose divergence from p is within the budget. In total variation that is
    h = p + t (q - p), with the largest t in [0, 1] that the budget allows. In Kullback-Leibler
    divergence, KL(h || p), it is h(x) = q(x) clamped to [b p(x), a p(x)], with a and b so that h
    sums to one and the budget is used up.

    Reconstructed from the paper's problem, not from its algorithm: its closed form bounds a
    distribution made for the drafted token alone, and so not the distribution of the text.

    Lossy: given the text before it, the distribution of each token is within the budget of p. Exact
    at temperature 0.

    budget: the most divergence for each token; 0 is the token rule.
    divergence: "tv" for total variation, "kl" for Kullback-Leibler divergence in nats.
    """

    examples: ClassVar[tuple[VerifierExample, ...]] = (
        VerifierExample(p=(0.5, 0.3, 0.2), q=(0.2, 0.3, 0.5), text=(0.4, 0.3, 0.3), accepted=0.8),
        VerifierExample(
            p=(0.5, 0.5),
            q=(0.9, 0.1),
            text=(0.75, 0.25),
            settings={
                "divergence": "kl",
                "budget": 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5),
            },
        ),
    )

    @checked("verifier")
    def __init__(
        self, budget: NonNegative = 0.1, divergence: Annotated[str, OneOf(DIVERGENCES)] = "tv"
    ) -> None:
        self.budget: Budget = Budget(budget, divergence)

    def aim(self, p: Probs, q: Probs) -> Probs:
        if self.budget.divergence == "tv":
            return p + min(1.0, self.budget.limit / max(self.budget.spent(q, p), 1e-300)) * (q - p)
        # Rounding may lift the divergence above the limit by a few bits.
        return within(self.budget, nearest_in_kl(p, q, self.budget.limit), p)


def nearest_in_kl(p: Probs, q: Probs, limit: float) -> Probs:
    """Returns q clamped to [b p, a p], with the smallest b in [0, 1] that the limit allows."""
    possible = p > 0  # elsewhere any probability would cost an infinite divergence
    clamps = Clamps.of(p[possible].cpu().numpy(), q[possible].cpu().numpy())
    low, high, upper = 0.0, 1.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        factor, spent = clamps.at(middle)
        if spent <= limit:
            high, upper = middle, factor
        else:
            low = middle
    h = q.maximum(high * p).minimum(upper * p)
    return h / h.sum()


@final
@dataclass(frozen=True, slots=True)
class Clamps:
    """Sums over the tokens in rising order of q / p, from which any clamp of q follows quickly.

    ratio: q / p. p, q, log: entry n is the sum over the first n tokens of p, q and q log(q / p).
    total: for each ratio a, the sum of min(q, a p) over all tokens.
    """

    ratio: Floats
    p: Floats
    q: Floats
    log: Floats
    total: Floats

    @classmethod
    def of(cls, p: Floats, q: Floats) -> "Clamps":
        """Returns the sums for two distributions, where p is above zero everywhere."""
        order = np.argsort(q / p)
        p, q = p[order], q[order]
        ratio = q / p
        logs = q * np.log(np.where(ratio > 0, ratio, 1.0))
        of_p, of_q, of_log = (np.concatenate([[0.0], x.cumsum()]) for x in (p, q, logs))
        return cls(ratio, of_p, of_q, of_log, of_q[1:] + ratio * (of_p[-1] - of_p[1:]))

    def at(self, low: float) -> tuple[float, float]:
        """Returns the a for which q clamped to [b p, a p] sums to one, and its divergence from p.

        The divergence is infinite if there is no such a. low: b.
        """
        below = int(np.searchsorted(self.ratio, low))
        needed = self.p[-1] - low * self.p[below] + self.q[below]
        upto = int(np.searchsorted(self.total, needed))
        above = self.p[-1] - self.p[upto]
        if upto == len(self.ratio) or above <= 0:
            return 1.0, float("inf")
        factor = max(1.0, float((needed - self.q[upto]) / above))
        ends = low * math.log(low) * self.p[below] if low > 0 else 0.0
        ends += factor * math.log(factor) * above
        return factor, max(0.0, float(ends + self.log[upto] - self.log[below]))
