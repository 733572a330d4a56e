"""The token rule with another distribution in place of the target's, for lossy rules."""

from abc import abstractmethod

from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.verifier import Budget, Probs, Scores, Verifier
from outrider.verifiers.token import residual

STEPS = 60
"""Bisections of a share or a factor, enough for the last bit of a float."""


class Towards(Verifier):
    """A rule whose tokens have the distribution `aim(p, q)`, within a budget of divergence from p.

    A token x of the draft is accepted with probability min(1, h(x) / q(x)) for h = aim(p, q), and
    otherwise replaced by a draw from norm(max(0, h - q)). After the draft, tokens have the
    distribution p. At temperature 0, h is p.

    budget: the most divergence for each token; 0 is the token rule.
    """

    budget: Budget

    @property
    def lossless(self) -> bool:
        return self.budget.limit == 0

    @abstractmethod
    def aim(self, p: Probs, q: Probs) -> Probs:
        """Returns the distribution that a token should have, given that it was drafted from q.

        p, q: in the widest type of their device; the budget is above 0.
        """

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        for node, token in enumerate(draft.tokens):
            q = wide(draft.distribution(node, wide(scores.after(node - 1))))
            h = self._aimed(q, scores, node - 1)
            if not chance.coins((h[token] / q[token])[None])[0]:
                return Verdict(tuple(range(node)), chance.categorical(residual(h, q, token)))
        return Verdict(tuple(range(len(draft))), chance.categorical(scores.after(len(draft) - 1)))

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        q = wide(q, scores.logits.device)
        return (self._aimed(q, scores, node) / q).nan_to_num(0.0, posinf=1.0).clamp(max=1)

    def ceiling(self, scores: Scores) -> Float[Tensor, "nodes+1 vocab"]:
        return scores.probs if scores.sampling.greedy else self.budget.ceiling(scores.probs)

    def _aimed(self, q: Probs, scores: Scores, node: int) -> Probs:
        """Returns the h of the token after `node`, if it was drawn from q."""
        p = wide(scores.after(node))
        p = p / p.sum()
        return p if self.lossless or scores.sampling.greedy else self.aim(p, q)


def within(budget: Budget, h: Probs, p: Probs) -> Probs:
    """Returns p + s (h - p) with the largest s in [0, 1] that the budget allows."""
    if budget.spent(h, p) <= budget.limit:
        return h
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if budget.spent(p + middle * (h - p), p) <= budget.limit:
            low = middle
        else:
            high = middle
    return p + low * (h - p)
