"""How far a drafter's predictions are from the target's, position by position."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

Logits = Float[Tensor, "rows vocab"]
Rows = Float[Tensor, "rows"]
States = Float[Tensor, "rows width"]
Tokens = Int[Tensor, "rows"]
Divergence = Callable[[Logits, Logits], Rows]
"""From the drafter's logits (q) and the target's (p) to one value for each row."""


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
