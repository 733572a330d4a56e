"""Block: verifies a chain as one block, which accepts at least as much as token by token."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.draft import Draft
from outrider.contract.verifier import Scores, Verdict, Verifier
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.verifiers.token import acceptance


@final
class Block(Verifier):
    """Accepts the longest prefix of which the coin falls right (Sun et al. 2403.10444, Algorithm 2).

    With w_0 = 1 and w_i = min(1, w_{i-1} p(x_i) / q(x_i)), the coin of prefix i < gamma has the
    probability S / (S + 1 - w_i), S = sum_x max(0, w_i p(x) - q(x)) of the distributions after it; that
    of the whole draft has w_gamma. After prefix i the next token is drawn from what is left,
    norm(max(0, w_i p - q)), and after the whole draft from p. Lossless, and in the mean no
    valid rule for one path accepts more (their Theorem 2).
    """

    lossless = True

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        weights = [1.0]
        for ratio in acceptance(draft, scores).tolist():
            weights.append(min(1.0, weights[-1] * ratio))
        left = [
            weighted_rest(weight, scores.after(place - 1), draft, place)
            for place, weight in enumerate(weights[:-1])
        ]
        rates = [
            keep(float(rest.sum()), w) for rest, w in zip(left[1:], weights[1:-1], strict=True)
        ]
        coins = chance.coins(
            torch.tensor([*rates, *weights[-1:]][: len(draft)], dtype=torch.float64)
        )
        # The last coin that falls right decides, whatever those before it say.
        accepted = max((place for place, coin in enumerate(coins, start=1) if coin), default=0)
        p = scores.after(accepted - 1)
        if accepted < len(draft) and left[accepted].any():
            p = left[accepted]
        return Verdict(tuple(range(accepted)), chance.categorical(p))


def weighted_rest(
    weight: float, p: Float[Tensor, "vocab"], draft: Draft, node: int
) -> Float[Tensor, "vocab"]:
    """Returns max(0, w p - q) with q the distribution that `node` was drawn from."""
    rest = p.double() * weight
    probs = draft.probs[node]
    if probs is None:
        rest[draft.tokens[node]] -= 1.0
    else:
        rest -= probs.to(rest.device)
    return rest.clamp(min=0)


def keep(left: float, weight: float) -> float:
    """Returns S / (S + 1 - w), the probability that a prefix of weight w is kept."""
    below = left + 1 - weight
    return left / below if below > 0 else 1.0


@hookimpl
def register_verifiers(register: Register) -> None:
    register("block", Block)
