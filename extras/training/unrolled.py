"""A feature network learns from its own output, as many steps ahead as it will draft."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear

from outrider.drafters.parts.networks.features import FeatureNetwork
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.extras.training.losses import forward_kl, nearness, top_k
from outrider.extras.training.states import Batch
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.tree_mask import causal


@final
@dataclass(frozen=True, slots=True)
class Unrolling:
    """How far a network is unrolled, and what each step's loss is made of.

    steps: the number of steps.
    feature: the weight of the smooth L1 distance to the target's state.
    distribution: the weight of the divergence from the target's distribution, over the network's
        vocabulary.
    best: the weight of HASS's top-k loss.
    decay: the factor on the loss from each step to the next.
    noise: what is added to the states of the first step in training, uniform on [-noise, noise].
    detach: whether gradients stop between steps.
    """

    steps: int
    feature: float = 0.0
    distribution: float = 1.0
    best: float = 0.0
    decay: float = 1.0
    noise: float = 0.0
    detach: bool = False


def unrolled_loss(
    network: FeatureNetwork, batch: Batch, head: Float[Tensor, "known width"], unrolling: Unrolling
) -> Tensor:
    """Returns the loss of drafting from every position of the texts.

    In step j each position reads the output of step j - 1 there. It attends to the target's states
    up to its own position, and to its own outputs since (the training-time test of EAGLE-3,
    2503.01840, section 3.2; the aligned passes of HASS, 2408.15766, section 3.2). A single step
    is EAGLE-1's training.

    head: the target's output matrix for the tokens that the network knows.
    """
    count = batch.ids.shape[1] - 1
    states = _first_states(network, batch, unrolling.noise)
    device, cache = states.device, KeysAndValues()
    earlier = causal(count, count, device)[None, None]
    itself = torch.eye(count, dtype=torch.bool, device=device)[None, None]
    writable = network.vocabulary.knows(batch.best)
    total, weight = states.new_zeros(()), 0.0
    for step in range(unrolling.steps):
        tokens = _shifted(batch.ids, step + 1, count)
        positions = torch.arange(count, device=device)[None] + step
        reach = torch.cat([earlier, *[itself] * step], dim=-1)
        states = network(states, tokens, positions.expand(len(tokens), -1), reach, cache)
        target_states = _shifted(batch.states[HIDDEN], step + 1, count)
        # A state gives the distribution of the token after it, which the target must have written.
        counted = _shifted(batch.own, step + 2, count) & _shifted(writable, step + 1, count)
        if counted.any():
            terms = _terms(network, states[counted], target_states[counted], head, unrolling)
            total = total + unrolling.decay**step * terms.mean()
        weight += unrolling.decay**step
        if unrolling.detach:
            states = states.detach()
    return total / weight


def _first_states(network: FeatureNetwork, batch: Batch, noise: float) -> Tensor:
    """Returns the network's input states at each position but the last, with noise in training."""
    features = [batch.states[name][:, :-1] for name in network.reads]
    if network.training and noise:
        features = [rows + (2 * torch.rand_like(rows) - 1) * noise for rows in features]
    return network.states(features)


def _terms(
    network: FeatureNetwork,
    states: Float[Tensor, "positions w"],
    target_states: Float[Tensor, "positions width"],
    rows: Float[Tensor, "known width"],
    unrolling: Unrolling,
) -> Float[Tensor, "positions"]:
    """Returns the loss of one step at each position. rows: the target's, of the known tokens."""
    terms = states.new_zeros(len(states))
    logits, target_logits = network.logits(states), linear(target_states, rows)
    terms = terms + unrolling.distribution * forward_kl(logits, target_logits)
    if unrolling.best:
        terms = terms + unrolling.best * top_k(logits, target_logits)
    if unrolling.feature:
        terms = terms + unrolling.feature * nearness(states, target_states)
    return terms


def _shifted(rows: Tensor, by: int, count: int) -> Tensor:
    """Returns the entry `by` positions after each of `count` positions; zeros past the end."""
    shifted = rows[:, by : by + count]
    missing = count - shifted.shape[1]
    padding = shifted.new_zeros(len(rows), missing, *rows.shape[2:])
    return torch.cat([shifted, padding], dim=1)
