"""How EAGLE, EAGLE-3 and MTP learn: from the target's states, and from their own output."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from outrider.contract.target import Target
from outrider.drafters.eagle import EagleNetwork
from outrider.drafters.eagle3.config import Eagle3Config
from outrider.drafters.eagle3.drafter import Eagle3Network
from outrider.drafters.mtp.drafter import MtpNetwork
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.features import FeatureNetwork, default_layers
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.extras.training.learner import Learner, Objective, Setup
from outrider.extras.training.losses import forward_kl, nearness, top_k
from outrider.extras.training.states import Batch
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.masks import causal

RIDGE = 1e-3
"""What is added to each input's second moment, as a share of their mean."""


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
    features = [batch.states[name][:, :-1] for name in network.reads]
    if network.training and unrolling.noise:
        noise = [(2 * torch.rand_like(rows) - 1) * unrolling.noise for rows in features]
        features = [rows + added for rows, added in zip(features, noise, strict=True)]
    states = network.states(features)
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
            own, right = states[counted], target_states[counted]
            logits, target_logits = network.logits(own), linear(right, head)
            terms = unrolling.distribution * forward_kl(logits, target_logits)
            if unrolling.best:
                terms = terms + unrolling.best * top_k(logits, target_logits)
            if unrolling.feature:
                terms = terms + unrolling.feature * nearness(own, right)
            total = total + unrolling.decay**step * terms.mean()
        weight += unrolling.decay**step
        if unrolling.detach:
            states = states.detach()
    return total / weight


def _shifted(rows: Tensor, by: int, count: int) -> Tensor:
    """Returns the entry `by` positions after each of `count` positions; zeros past the end."""
    shifted = rows[:, by : by + count]
    missing = count - shifted.shape[1]
    padding = shifted.new_zeros(len(rows), missing, *rows.shape[2:])
    return torch.cat([shifted, padding], dim=1)


@torch.no_grad()
def start_eagle(network: EagleNetwork, target: Target, batches: Iterable[Batch]) -> None:
    """Sets EAGLE's fusion to the least-squares prediction of the next state from state and token.

    The layer adds nothing to it at first. Random weights take a thousand steps to get as far.
    """
    table, moment, cross = weights.embedding(target).detach(), torch.zeros(()), torch.zeros(())
    for batch in batches:
        own, states = batch.own[:, 1:], batch.states[HIDDEN]
        words = embedding(batch.ids[:, 1:], table)
        read = torch.cat([words, states[:, :-1], words.new_ones(*own.shape, 1)], dim=-1)
        inputs, outputs = read[own].double(), states[:, 1:][own].double()
        moment, cross = moment + inputs.T @ inputs, cross + inputs.T @ outputs
    ridge = RIDGE * moment.diagonal().mean() * torch.eye(len(moment)).to(moment)
    matrix = torch.linalg.solve(moment + ridge, cross).T
    network.fc.weight.copy_(matrix[:, :-1])
    if network.fc.bias is not None:
        network.fc.bias.copy_(matrix[:, -1])
    for layer in (network.self_attn.o_proj, network.mlp.down_proj):
        nn.init.zeros_(layer.weight)


@final
@dataclass(frozen=True, slots=True)
class EagleObjective(Objective):
    """EAGLE-1 (2401.15077, section 3.2), or HASS (2408.15766) with three steps and `best` 1.

    The fields are those of `Unrolling`.
    """

    steps: int = 1
    feature: float = 1.0
    distribution: float = 0.1
    best: float = 0.0
    noise: float = 0.1

    def learner(self, setup: Setup) -> Learner:
        network = setup.network(EagleNetwork)
        unrolling = Unrolling(**asdict(self), detach=True)
        loss = partial(unrolled_loss, network, head=setup.head, unrolling=unrolling)
        start = partial(start_eagle, network, setup.target)
        return setup.learner(network, loss, start=start)


@final
@dataclass(frozen=True, slots=True)
class Eagle3Objective(Objective):
    """EAGLE-3 (2503.01840, section 3.2): the network reads its own output, as when it drafts."""

    steps: int = 7
    decay: float = 0.8
    layers: list[int] | None = None
    inner: int | None = None

    def learner(self, setup: Setup) -> Learner:
        layers = self.layers or default_layers(setup.target)
        config = Eagle3Config.like(setup.target, layers, self.inner)
        network = setup.network(Eagle3Network, config=config)
        with torch.no_grad():  # the target's own rows are a better start than random ones
            network.lm_head.weight.copy_(setup.head)
        unrolling = Unrolling(steps=self.steps, decay=self.decay)
        loss = partial(unrolled_loss, network, head=setup.head, unrolling=unrolling)
        return setup.learner(network, loss, *network.reads)


@final
@dataclass(frozen=True, slots=True)
class MtpObjective(Objective):
    """A layer for multi-token prediction, for a target without one (2412.19437, section 2.2).

    It learns the target's distributions, also from its own output, since it drafts all tokens.
    """

    steps: int = 3
    decay: float = 0.8

    def learner(self, setup: Setup) -> Learner:
        network = setup.network(MtpNetwork)
        unrolling = Unrolling(steps=self.steps, decay=self.decay)
        loss = partial(unrolled_loss, network, head=setup.head, unrolling=unrolling)
        return setup.learner(network, loss)
