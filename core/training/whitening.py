"""Whitening: each matrix learns in a basis in which what it reads varies more evenly."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.training.states import Batch

WIDEST = 8192
"""The most entries of an input for which the basis is found; it takes time with their cube."""

FLOOR = 1e-3
"""What each direction's variance counts at least, as a share of the mean: rarer ones are noise."""

Basis = Float[Tensor, "entries entries"]


@final
class WhitenedAdamW(torch.optim.AdamW):
    """AdamW on W B^-1 in place of each matrix W that has a basis B (1507.00210, section 3).

    The states of a language model vary a thousand times as much in a few directions as in most.
    Steps small enough for those leave the others, which tell tokens apart, where they began.
    Here W moves by A(G B) B, where A is Adam's step and G the gradient, so that the network and
    its files know nothing of the bases.
    """

    def __init__(self, network: nn.Module, bases: Mapping[str, Basis], rate: float) -> None:
        # A basis lies in its group, where checkpoints of an optimizer keep it.
        groups = [
            {"params": [tensor], "basis": bases.get(name)}
            for name, tensor in network.named_parameters()
            if tensor.requires_grad
        ]
        super().__init__(groups, lr=rate, weight_decay=0.0, betas=(0.9, 0.95))

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        turned = [
            (tensor, tensor.clone(), group["basis"])
            for group in self.param_groups
            for tensor in group["params"]
            if group["basis"] is not None and tensor.grad is not None
        ]
        for tensor, _, basis in turned:
            tensor.grad = (tensor.grad @ basis).to(tensor.dtype)
        super().step(closure)
        for tensor, before, basis in turned:
            tensor.copy_(before + (tensor - before) @ basis)


@torch.no_grad()
def bases(
    network: nn.Module, loss: Callable[[Batch], Tensor], batches: Iterable[Batch]
) -> dict[str, Basis]:
    """Returns, by its name, the basis of each matrix that learns, from what it reads in batches.

    It is the inverse fourth root of the inputs' second moment, scaled to determinant 1: half of
    what makes them white. All of it learns as fast at first, but is thrown off where inputs
    change as the layers before them learn.
    """
    moments: dict[str, Tensor] = {}
    handles = [
        layer.register_forward_pre_hook(partial(_add, moments, f"{name}.weight"))
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear)
        and layer.weight.requires_grad
        and layer.in_features <= WIDEST
    ]
    was = network.training
    network.eval()
    for batch in batches:
        loss(batch)
    network.train(was)
    for handle in handles:
        handle.remove()
    kinds = {name: tensor.dtype for name, tensor in network.named_parameters()}
    return {name: _basis(moment).to(kinds[name]) for name, moment in moments.items()}


def _add(moments: dict[str, Tensor], name: str, layer: nn.Module, inputs: tuple[Tensor]) -> None:
    rows = inputs[0].flatten(0, -2).float()
    moments[name] = rows.T @ rows + moments.get(name, 0.0)


def _basis(moment: Float[Tensor, "entries entries"]) -> Basis:
    variances, directions = torch.linalg.eigh(moment.double())
    variances = (
        variances.clamp(min=0.0) + FLOOR * variances.mean() + torch.finfo(torch.float32).tiny
    )
    scales = ((variances.log().mean() - variances.log()) / 4).exp()
    basis: Tensor = (directions * scales) @ directions.T
    return basis
