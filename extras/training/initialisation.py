"""Initial weights that are better than random ones."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.target import Target
from outrider.drafters.eagle import EagleNetwork
from outrider.drafters.parts.networks import weights
from outrider.extras.training.states import Batch
from outrider.targets.passes.cached_model import HIDDEN

RIDGE = 1e-3
"""What is added to each input's second moment, as a share of their mean."""


@torch.no_grad()
def start_eagle(network: EagleNetwork, target: Target, batches: Iterable[Batch]) -> None:
    """Sets EAGLE's fusion to the least-squares prediction of the next state from state and token.

    The layer adds nothing to it at first. Random weights take a thousand steps to get as far.
    """
    table = weights.embedding(target).detach()

    def pair(batch: Batch) -> tuple[Tensor, Tensor]:
        own = batch.own[:, 1:]
        states, embedded = batch.states[HIDDEN], embedding(batch.ids[:, 1:], table)
        ones = embedded.new_ones(*own.shape, 1)
        return torch.cat([embedded, states[:, :-1], ones], dim=-1)[own], states[:, 1:][own]

    matrix = least_squares(map(pair, batches))
    network.fc.weight.copy_(matrix[:, :-1])
    if network.fc.bias is not None:
        network.fc.bias.copy_(matrix[:, -1])
    for layer in (network.self_attn.o_proj, network.mlp.down_proj):
        nn.init.zeros_(layer.weight)


def least_squares(
    pairs: Iterable[tuple[Float[Tensor, "rows inputs"], Float[Tensor, "rows outputs"]]],
) -> Float[Tensor, "outputs inputs"]:
    """Returns the matrix that maps inputs to outputs with the least squared error and a ridge.

    pairs: batches of inputs and outputs.
    """
    moment = cross = torch.zeros(())
    for inputs, outputs in pairs:
        inputs, outputs = inputs.double(), outputs.double()
        moment, cross = moment + inputs.T @ inputs, cross + inputs.T @ outputs
    ridge = RIDGE * moment.diagonal().mean() * torch.eye(len(moment)).to(moment)
    matrix: Tensor = torch.linalg.solve(moment + ridge, cross)
    return matrix.T.float()
