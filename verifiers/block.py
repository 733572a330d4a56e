"""Verifies a chain as one block, and accepts at least as much as the token rule."""

from typing import final

import torch
from torch import Tensor

from outrider.contract.chance import Chance
from outrider.contract.devices import wide
from outrider.contract.draft import Draft, Verdict
from outrider.contract.sampling import Sampling
from outrider.contract.verifier import Decider, Decision, Probs, Ratios, Scores, Verifier
from outrider.verifiers.prefix import acceptance, ratios, remaining, verdict_on_device


@final
class Block(Verifier):
    """Accepts the longest prefix whose coin comes up true (Sun et al. 2403.10444, Algorithm 2).

    Let w_0 = 1 and w_i = min(1, w_{i-1} p(x_i) / q(x_i)). The coin of a prefix i < gamma is true
    with probability S / (S + 1 - w_i), where S = sum_x max(0, w_i p(x) - q(x)) for the
    distributions after the prefix. The coin of the whole draft is true with probability w_gamma.
    After prefix i the next token is drawn from the residual norm(max(0, w_i p - q)), after the
    whole draft from p.

    Lossless. No valid rule for one path accepts more tokens on average (their Theorem 2).
    """

    lossless = True

    def verify(self, draft: Draft, scores: Scores, chance: Chance) -> Verdict:
        if scores.logits.device.type != "cpu":
            return verdict_on_device(_decide, draft, scores, chance)
        weights = [1.0]
        for ratio in acceptance(draft, scores).tolist():
            weights.append(min(1.0, weights[-1] * ratio))
        residuals = [
            weighted_residual(weight, scores.after(node - 1), draft, node)
            for node, weight in enumerate(weights[:-1])
        ]
        rates = [
            prefix_rate(float(residual.sum()), weight)
            for residual, weight in zip(residuals[1:], weights[1:-1], strict=True)
        ]
        coins = chance.coins(
            torch.tensor([*rates, *weights[-1:]][: len(draft)], dtype=torch.float64)
        )
        # The last true coin decides, whatever the coins before it are.
        accepted = max((length for length, coin in enumerate(coins, start=1) if coin), default=0)
        p = scores.after(accepted - 1)
        if accepted < len(draft) and residuals[accepted].any():
            p = residuals[accepted]
        return Verdict(tuple(range(accepted)), chance.categorical(p))

    def decider(self, sampling: Sampling) -> Decider:
        return _decide

    def accepts_along(self, ratios: Ratios) -> Ratios:
        return blockwise(ratios)


def _decide(tokens: Tensor, q: Tensor, scores: Scores, chance: Chance) -> Decision:
    """Decides as `Block.verify` does, from the whole draft at once."""
    p, gamma = wide(scores.probs), len(tokens)
    weights = [torch.ones_like(p[0, 0])]
    for ratio in ratios(tokens, q, scores).unbind():
        weights.append((weights[-1] * ratio).clamp(max=1))
    # The last row, after the whole draft, has the residual p and the coin w.
    w = torch.stack(weights)
    residuals = (torch.cat([w[:-1], w.new_ones(1)])[:, None] * p - q).clamp(min=0)
    masses = residuals.sum(-1)
    below = masses + 1 - w
    rates = torch.where(below > 0, masses / below, 1.0)
    coins = chance.flips(torch.cat([rates[1:gamma], w[gamma:] if gamma else w[:0]]))
    lengths = torch.arange(1, gamma + 1, device=p.device)
    accepted = torch.cat([(coins * lengths), lengths.new_zeros(1)]).amax(0, keepdim=True)
    residual, after = (rows.index_select(0, accepted)[0] for rows in (residuals, p))
    return accepted, chance.pick(remaining(residual, after))


def blockwise(ratios: Ratios) -> Ratios:
    """Returns the probability that each token of a draft is accepted, if those before it were.

    The tokens are those of a text that the target wrote. A prefix of length i is accepted, alone or
    with more of the draft, with probability w_i: summed over the next token, that is S alone and
    w_i - S with more. The draft has this prefix with probability q_i, and the text with p_i, both
    products over its tokens. So given the text, the draft has the prefix and it is accepted with
    probability w_i q_i / p_i. Each result is this value divided by that of the prefix before.

    ratios: q(x) / p(x) for the draft's tokens.
    """
    rates = torch.zeros_like(ratios)
    weight = torch.ones_like(ratios[:, 0])
    for depth, ratio in enumerate(ratios.unbind(1)):
        rates[:, depth] = (ratio / weight).clamp(max=1)
        weight = (weight / ratio).clamp(max=1)
    return rates


def weighted_residual(weight: float, p: Probs, draft: Draft, node: int) -> Probs:
    """Returns max(0, w p - q), not normalised, where q is the distribution that drew `node`."""
    residual = wide(p) * weight
    probs = draft.probs[node]
    if probs is None:
        residual[draft.tokens[node]] -= 1.0
    else:
        residual -= wide(probs, residual.device)
    return residual.clamp(min=0)


def prefix_rate(mass: float, weight: float) -> float:
    """Returns S / (S + 1 - w): the rate at which a prefix of weight w is accepted.

    mass: S, the sum of the residual after the prefix.
    """
    below = mass + 1 - weight
    return mass / below if below > 0 else 1.0


def hierarchical() -> Block:
    """Returns the rule of hierarchical speculative decoding (2601.05724, capped variant).

    It judges the whole draft first, then one prefix after another, and gives every draft the same
    distribution of verdicts as block verification: its capped ratio is the weight w_i.
    """
    return Block()
