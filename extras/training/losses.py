"""How far predictions are from the target's, and where they are learned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import linear, smooth_l1_loss

from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.training.states import Batch

Logits = Float[Tensor, "rows vocab"]
Rows = Float[Tensor, "rows"]
States = Float[Tensor, "rows width"]
Tokens = Int[Tensor, "rows"]
Divergence = Callable[[Logits, Logits], Rows]
"""From the drafter's logits (q) and the target's (p) to one value for each row."""

LOW = -1e4
"""Stands for -inf, whose differences have no gradient; its probability is 0 all the same."""


def forward_kl(drafter: Logits, target: Logits) -> Rows:
    """Returns KL(p || q) for each row, in nats; its gradient is that of cross entropy."""
    p = target.log_softmax(-1)
    return (p.exp() * (p - drafter.log_softmax(-1))).sum(-1)


def reverse_kl(drafter: Logits, target: Logits) -> Rows:
    """Returns KL(q || p) for each row, in nats."""
    return forward_kl(target, drafter)


def jensen_shannon(drafter: Logits, target: Logits) -> Rows:
    """Returns the mean of KL(p || m) and KL(q || m), where m = (p + q) / 2, in nats."""
    p, q = target.log_softmax(-1), drafter.log_softmax(-1)
    mean = torch.logaddexp(p, q) - torch.log(p.new_tensor(2.0))
    return ((p.exp() * (p - mean)).sum(-1) + (q.exp() * (q - mean)).sum(-1)) / 2


def total_variation(drafter: Logits, target: Logits) -> Rows:
    """Returns TV(p, q) for each row, which is 1 - alpha (2211.17192, Corollary 3.6)."""
    return (target.softmax(-1) - drafter.softmax(-1)).abs().sum(-1) / 2


DIVERGENCES: dict[str, Divergence] = {
    "forward_kl": forward_kl,
    "reverse_kl": reverse_kl,
    "jensen_shannon": jensen_shannon,
    "total_variation": total_variation,
}
"""DistillSpec's divergences (2310.08461, Table 1), by name."""


def top_k(drafter: Logits, target: Logits, k: int = 10) -> Rows:
    """Returns -sum p(x) log q(x) over the k likeliest x of p (HASS, 2408.15766, Equation 3)."""
    p, best = target.softmax(-1).topk(min(k, target.shape[-1]), dim=-1)
    return -(p * drafter.log_softmax(-1).gather(-1, best)).sum(-1)


def nearness(states: States, target: States) -> Rows:
    """Returns the smooth L1 distance of states, as the mean over their entries."""
    return smooth_l1_loss(states, target, reduction="none").mean(-1)


def cross_entropy(drafter: Logits, tokens: Tokens) -> Rows:
    """Returns -log q of the tokens, in nats."""
    return -drafter.log_softmax(-1).gather(-1, tokens[:, None])[:, 0]


@final
@dataclass(frozen=True, slots=True)
class HeadLoss:
    """The distance from the target's distributions, or from its tokens.

    vocabulary: the tokens that the logits stand for.
    matrix: the target's output matrix for these tokens, [known, width].
    soft: whether to learn the target's distributions; if not, its tokens.
    """

    vocabulary: Vocabulary
    matrix: Tensor
    soft: bool = True

    def __call__(self, logits: Logits, target_states: States, tokens: Tokens) -> Tensor:
        """Returns the mean distance, 0 without rows. target_states: what its head reads."""
        if not len(logits):
            return logits.sum() * 0
        return self.terms(logits, target_states, tokens).mean()

    def terms(self, logits: Logits, target_states: States, tokens: Tokens) -> Rows:
        """Returns the distance of each row.

        Tokens that the logits rule out with -inf are left out of the target's distributions; a row
        whose token they rule out has no distance from it.
        """
        excluded = logits.isneginf()
        logits = logits.masked_fill(excluded, LOW)
        if self.soft:
            target = linear(target_states, self.matrix)
            return forward_kl(logits, target.masked_fill(excluded, LOW))
        numbers = self.vocabulary.numbers(tokens)
        is_excluded = excluded.gather(-1, numbers[:, None])[:, 0]
        return cross_entropy(logits, numbers).masked_fill(is_excluded, 0.0)

    @torch.no_grad()
    def acceptance(self, logits: Logits, target_states: States) -> Rows:
        """Returns sum_x min(p, q) of each row, over the tokens of the vocabulary."""
        target = linear(target_states, self.matrix)
        return 1 - total_variation(logits, target)


def expected_lengths(
    acceptance: Float[Tensor, "*blocks places"],
) -> Float[Tensor, "*blocks places"]:
    """Returns how many tokens are expected to be accepted from each place of a block on.

    sum_{m >= j} prod_{i <= m} a_i for place j: the derivative of the expected length with respect
    to log a_j (D-PACE, 2605.18810, Equation 8).

    acceptance: the probability a_i that each token is accepted if those before it are.
    """
    return acceptance.cumprod(-1).flip(-1).cumsum(-1).flip(-1)


def accepted_in_blocks(
    logs: Float[Tensor, "*blocks places"],
) -> Float[Tensor, "*blocks"]:
    """Returns how many tokens of each block of a text count for block verification (2403.10444).

    That is the sum over i of v_i = min(1, Q_1 / P_1, ..., Q_i / P_i), with the probabilities P and
    Q of the first tokens. The rule's weight w_i of a drafted prefix has w_i Q_i = v_i P_i. So the
    mean over texts of the target is the mean number of drafted tokens that the rule accepts.

    logs: log q - log p of each token, given those before it.
    """
    return logs.cumsum(-1).cummin(-1).values.clamp(max=0).exp().sum(-1)


def learnable(batch: Batch, vocabulary: Vocabulary, ahead: int) -> Bool[Tensor, "batch tokens"]:
    """Returns the positions from which the token `ahead` positions later can be learned.

    The target must have written that token, and the vocabulary must know it and the target's
    likeliest token there.
    """
    counted = torch.zeros_like(batch.own)
    inside = batch.own[:, ahead:] & vocabulary.knows(batch.best[:, ahead - 1 : -1])
    counted[:, : inside.shape[1]] = inside & vocabulary.knows(batch.ids[:, ahead:])
    return counted
