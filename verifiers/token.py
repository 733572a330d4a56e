"""The lossless rule of Leviathan et al. and Chen et al., token by token."""

from typing import final

from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import Sampling, likeliest
from outrider.contract.verifier import Decider, Decision, Probs, Scores, Verifier
from outrider.verifiers.prefix import (
    acceptance,
    decided,
    leading,
    leading_there,
    ratios,
    remaining,
    verify_prefix,
)


@final
class Token(Verifier):
    """The standard rule: accepts token x with probability min(1, p(x) / q(x)).

    The first rejected token is replaced by a draw from norm(max(0, p - q)). If all are accepted, a
    bonus token is drawn from p. The text has the distribution p for any drafter (2211.17192,
    Algorithm 1 and Appendix A.1; 2302.01318, Theorem 1, with p and q swapped).
    """

    lossless = True

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        if scores.sampling.greedy:  # p is a point mass: nothing is left to chance
            best = likeliest(scores.logits).tolist()
            accepted = leading([token == x for token, x in zip(best, draft.tokens, strict=False)])
            return Verdict(tuple(range(accepted)), best[accepted])
        return verify_prefix(draft, scores, chance, acceptance(draft, scores), residual)

    def decider(self, sampling: Sampling) -> Decider:
        return _decide_greedily if sampling.greedy else _decide

    def accepts(self, q: Probs, scores: Scores, node: int) -> Probs:
        return token_rates(q, scores, node)


def _decide_greedily(tokens: Tensor, q: Tensor, scores: Scores, chance: Chance) -> Decision:
    best = likeliest(scores.logits)
    accepted = leading_there(best[:-1] == tokens)
    return accepted, best.index_select(0, accepted)


def _decide(tokens: Tensor, q: Tensor, scores: Scores, chance: Chance) -> Decision:
    return decided(ratios(tokens, q, scores), q, scores, chance, residual)


def token_rates(q: Probs, scores: Scores, node: int) -> Probs:
    """Returns min(1, p(x) / q(x)) for each token after `node`; 1 where both are 0."""
    p = scores.after(node)
    return (p / wide(q, p.device)).nan_to_num(0.0, posinf=1.0).clamp(max=1)


def residual(p: Probs, q: Probs | None, token: int | None) -> Probs:
    """Returns max(0, p - q), not normalised; q is a point mass on `token` if it is None.

    Returns p itself if nothing remains. Then p and q differ only by rounding, and the rejection had
    a probability of about 1e-7.
    """
    if q is None:
        rest = p.clone()
        rest[token] = 0
    else:
        rest = (p - wide(q, p.device)).clamp(min=0)
    return remaining(rest, p)
