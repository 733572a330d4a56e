"""Speculative cascades, which keep the drafter's tokens where the target gains little."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, final

import torch

from outrider.base.bounds import NonNegative, Share, checked
from outrider.base.expectations import OneOf
from outrider.contract.verifier import DIVERGENCES, Budget, Probs, VerifierExample
from outrider.verifiers.towards import Towards, within

DEFERRALS = {
    "chow": "where max q < 1 - margin",
    "diff": "where max q < max p - margin",
    "opt": "where max q < max p - margin TV(p, q)",
    "token": "for the tokens with p(x) < (1 - margin) max p",
}
"""When to defer to the target, that is, to take its distribution rather than the drafter's."""

P = (0.5, 0.3, 0.2)


def _example(q: Sequence[float], text: Sequence[float], **settings: Any) -> VerifierExample:
    """Returns what a cascade of P and q makes of the text."""
    return VerifierExample(p=P, q=q, text=text, settings=settings)


@final
class Cascade(Towards):
    """Speculative cascades (2405.19261): the token rule towards a cascade of drafter and target.

    The cascade's distribution is p where it defers to the target, and q elsewhere. With the rule
    "token" it is q(x) on tokens that are good enough; the probability that q gives the others is
    drawn again from p. The text gets the distribution h = p + s (cascade - p), with the largest s
    in [0, 1] that the budget allows; the paper has s = 1 and no budget. The deferral rules are
    reconstructed from the paper's statements of Chow's rule, Diff, OPT and its token-specific rule.

    Lossy: given the text before it, the distribution of each token is within the budget of p. Exact
    at temperature 0.

    deferral: "chow", "diff", "opt" or "token"; see `DEFERRALS`.
    margin: the paper's alpha, the price of a target call: how much worse q may be before the rule
        defers to p.
    budget: the most divergence for each token; 0 is the token rule.
    divergence: "tv" for total variation, "kl" for Kullback-Leibler divergence in nats.
    """

    examples: ClassVar[tuple[VerifierExample, ...]] = (
        # Diff and OPT ask how much surer the target is, Chow's rule only how sure the drafter is.
        _example((0.48, 0.32, 0.2), (0.48, 0.32, 0.2), deferral="chow", margin=0.6),
        _example((0.48, 0.32, 0.2), (0.5, 0.3, 0.2), deferral="chow", margin=0.1),
        _example((0.35, 0.33, 0.32), (0.35, 0.33, 0.32), deferral="diff", margin=0.2, budget=1),
        _example((0.35, 0.33, 0.32), P, deferral="diff", margin=0.1, budget=1),
        # Here the two are .14 apart.
        _example((0.36, 0.4, 0.24), (0.36, 0.4, 0.24), deferral="opt", margin=1, budget=1),
        _example((0.36, 0.4, 0.24), P, deferral="opt", margin=0.5, budget=1),
        # The third token is not good enough: what q gives it is drawn from p.
        _example((0.2, 0.3, 0.5), (0.45, 0.45, 0.1), deferral="token", margin=0.5, budget=1),
        # The budget takes the text two thirds of the way from p to q.
        _example((0.2, 0.3, 0.5), (0.3, 0.3, 0.4), deferral="chow", margin=1, budget=0.2),
    )

    @checked("verifier")
    def __init__(
        self,
        deferral: Annotated[str, OneOf(DEFERRALS)] = "opt",
        margin: Share = 0.1,
        budget: NonNegative = 0.1,
        divergence: Annotated[str, OneOf(DIVERGENCES)] = "tv",
    ) -> None:
        self.deferral = deferral
        self.margin = margin
        self.budget: Budget = Budget(budget, divergence)

    def aim(self, p: Probs, q: Probs) -> Probs:
        return within(self.budget, cascade(p, q, self.deferral, self.margin), p)


def cascade(p: Probs, q: Probs, deferral: str, margin: float) -> Probs:
    """Returns the distribution of the cascade, before any budget."""
    if deferral == "token":
        defers = p < (1 - margin) * p.max()
        return torch.where(defers, 0.0, q) + p * q[defers].sum()
    least = {
        "chow": 1 - margin,
        "diff": float(p.max()) - margin,
        "opt": float(p.max()) - margin * Budget(0).spent(q, p),
    }
    return p if float(q.max()) < least[deferral] else q
