"""The lossless rule of Leviathan et al. and Chen et al., token by token."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.sampling import likeliest
from outrider.contract.verifier import Scores, Verdict, Verifier


@final
class Token(Verifier):
    """Accepts token x of the draft with probability min(1, p(x) / q(x)).

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
        accepted = leading(chance.coins(acceptance(draft, scores))) if draft else 0
        p = scores.after(accepted - 1)
        if accepted < len(draft):
            p = residual(p, draft.probs[accepted], draft.tokens[accepted])
        return Verdict(tuple(range(accepted)), chance.categorical(p))

    def accepts(
        self, q: Float[Tensor, "vocab"], scores: Scores, node: int
    ) -> Float[Tensor, "vocab"]:
        return token_rates(q, scores, node)


def token_rates(q: Float[Tensor, "vocab"], scores: Scores, node: int) -> Float[Tensor, "vocab"]:
    """Returns min(1, p(x) / q(x)) for each token after `node`; 1 where both are 0."""
    p = scores.after(node)
    return (p / q.to(p.device)).nan_to_num(0.0, posinf=1.0).clamp(max=1)


def acceptance(draft: Draft, scores: Scores) -> Float[Tensor, "gamma"]:
    """Returns p(x) / q(x) for each token of a chain; q(x) is 1 if q is a point mass."""
    tokens = torch.tensor(draft.tokens, dtype=torch.long, device=scores.logits.device)
    p = scores.probs[torch.arange(len(draft), device=tokens.device), tokens].double()
    q = [
        1.0 if probs is None else float(probs[x])
        for x, probs in zip(draft.tokens, draft.probs, strict=True)
    ]
    return p / torch.tensor(q, dtype=torch.float64, device=p.device)


def leading(coins: list[bool]) -> int:
    """Returns the number of true coins before the first false one."""
    return coins.index(False) if False in coins else len(coins)


def residual(
    p: Float[Tensor, "vocab"], q: Float[Tensor, "vocab"] | None, token: int
) -> Float[Tensor, "vocab"]:
    """Returns max(0, p - q), not normalised; q is a point mass on `token` if it is None.

    Returns p itself if nothing remains. Then p and q differ only by rounding, and the rejection had
    a probability of about 1e-7.
    """
    if q is None:
        rest = p.clone()
        rest[token] = 0
    else:
        rest = (p - q.to(p.device)).clamp(min=0)
    return rest if rest.any() else p
