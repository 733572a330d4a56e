"""Starts: what a network begins as, where a better beginning than random weights is known."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.target import Target
from outrider.drafter_parts import weights
from outrider.drafter_parts.layer import Attention, FeedForward
from outrider.drafters.eagle import EagleNetwork
from outrider.runtime.cached_model import HIDDEN
from outrider.training.states import Batch

RIDGE = 1e-3
"""Added to each input's second moment, as a share of their mean."""


@torch.no_grad()
def eagle_start(network: EagleNetwork, target: Target, batches: Iterable[Batch]) -> None:
    """Sets the fusion to the least squares of the next state on state and token.

    The layer adds nothing to it at first. Random weights come as far after a thousand steps.
    """
    table = weights.embedding(target).detach()

    def pair(batch: Batch) -> tuple[Tensor, Tensor]:
        own = batch.own[:, 1:]
        states, words = batch.states[HIDDEN], embedding(batch.ids[:, 1:], table)
        ones = words.new_ones(*own.shape, 1)
        return torch.cat([words, states[:, :-1], ones], dim=-1)[own], states[:, 1:][own]

    matrix = least_squares(map(pair, batches))
    network.fc.weight.copy_(matrix[:, :-1])
    if network.fc.bias is not None:
        network.fc.bias.copy_(matrix[:, -1])
    _silence(network.self_attn, network.mlp)


def least_squares(
    pairs: Iterable[tuple[Float[Tensor, "rows inputs"], Float[Tensor, "rows outputs"]]],
) -> Float[Tensor, "outputs inputs"]:
    """Returns the matrix that takes inputs to outputs with the least squared error, and a ridge."""
    moment = mixed = torch.zeros(())
    for inputs, outputs in pairs:
        inputs, outputs = inputs.double(), outputs.double()
        moment, mixed = moment + inputs.T @ inputs, mixed + inputs.T @ outputs
    ridge = RIDGE * moment.diagonal().mean() * torch.eye(len(moment)).to(moment)
    matrix: Tensor = torch.linalg.solve(moment + ridge, mixed)
    return matrix.T.float()


def _silence(attention: Attention, feed: FeedForward) -> None:
    nn.init.zeros_(attention.o_proj.weight)
    nn.init.zeros_(feed.down_proj.weight)
