"""Each matrix learns in a basis in which its inputs vary more evenly."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.extras.training.states import Batch

WIDEST = 8192
"""The widest input that gets a basis, whose cost grows with the cube of the width."""

FLOOR = 1e-3
"""The least variance of a direction, as a share of the mean; anything below is taken for noise."""

Basis = Float[Tensor, "entries entries"]


@final
class WhitenedAdamW(torch.optim.AdamW):
    """AdamW on W B^-1 instead of W, for each matrix W with a basis B (1507.00210, section 3).

    The states of a language model vary a thousand times as much in a few directions as in most.
    Steps that are small enough for the few hardly move the others, which tell tokens apart. Here
    W moves by A(G B) B, where A is Adam's step and G the gradient. The network itself does not
    change, so its checkpoints are those of any other training.

    bases: a basis for each matrix that has one, by the matrix's name.
    """

    def __init__(self, network: nn.Module, bases: Mapping[str, Basis], rate: float) -> None:
        # A basis is an entry of its parameter group, so the optimizer's checkpoints keep it.
        groups = [
            {"params": [tensor], "basis": bases.get(name)}
            for name, tensor in network.named_parameters()
            if tensor.requires_grad
        ]
        super().__init__(groups, lr=rate, weight_decay=0.0, betas=(0.9, 0.95), fused=True)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        changed = [
            (tensor, tensor.clone(), group["basis"])
            for group in self.param_groups
            for tensor in group["params"]
            if group["basis"] is not None and tensor.grad is not None
        ]
        for tensor, _, basis in changed:
            tensor.grad = (tensor.grad @ basis).to(tensor.dtype)
            tensor.zero_()  # what Adam makes of it is the step alone, which no rounding hides
        super().step(closure)
        for tensor, before, basis in changed:
            tensor.copy_(before.add_(tensor @ basis))


@torch.no_grad()
def whitening_bases(
    network: nn.Module, loss: Callable[[Batch], Tensor], batches: Iterable[Batch]
) -> dict[str, Basis]:
    """Returns a basis for each matrix that learns, by its name, from its inputs in batches.

    It is the inverse fourth root of the inputs' second moment, scaled to determinant 1. That is
    half of full whitening, which learns as fast at first, but suffers when inputs change because
    the layers before them learn.
    """
    moments: dict[str, Tensor] = {}
    handles = [
        layer.register_forward_pre_hook(partial(_add_moment, moments, f"{name}.weight"))
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear)
        and layer.weight.requires_grad
        and layer.in_features <= WIDEST
    ]
    was_training = network.training
    network.eval()
    for batch in batches:
        loss(batch)
    network.train(was_training)
    for handle in handles:
        handle.remove()
    bases = {}
    for name, moment in moments.items():
        variances, directions = torch.linalg.eigh(moment.double())
        least = FLOOR * variances.mean() + torch.finfo(torch.float32).tiny
        logs = (variances.clamp(min=0.0) + least).log()
        basis = (directions * ((logs.mean() - logs) / 4).exp()) @ directions.T
        bases[name] = basis.to(network.get_parameter(name).dtype)
    return bases


def _add_moment(
    moments: dict[str, Tensor], name: str, layer: nn.Module, inputs: tuple[Tensor]
) -> None:
    rows = inputs[0].flatten(0, -2).float()
    moments[name] = rows.T @ rows + moments.get(name, 0.0)
