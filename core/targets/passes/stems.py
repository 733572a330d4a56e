"""Stems: a model's first layers and their last states, before any norm or head."""

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.base.errors import ConfigError
from outrider.targets.passes.cache import GrowingCache
from outrider.targets.passes.first_layers import first_layers
from outrider.targets.passes.forward import plain_pass
from outrider.targets.passes.module_copies import with_replaced
from outrider.targets.passes.pass_input import PassInput

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def stem(model: "PreTrainedModel", layers: int) -> "PreTrainedModel":
    """Returns a model whose last states are those of `model` after its first `layers` layers.

    It shares all of its tensors. A short pass proves that the states are the same.

    Raises:
        ConfigError: `model` does not have more layers than that, or can't be cut there.
    """
    norm = last_norm(model)
    cut: PreTrainedModel = with_replaced(
        first_layers(model, layers), lambda module: nn.Identity() if module is norm else None
    )
    expected, states = _states(model, layers), _states(cut, -1)
    if not torch.allclose(states, expected, atol=0.01 * float(expected.std())):
        name = type(model).__name__
        raise ConfigError(f"drafter.layers={layers}: {name} can't be cut there for an adapter")
    return cut


@torch.no_grad()
def _states(model: "PreTrainedModel", number: int) -> Float[Tensor, "1 tokens width"]:
    """Returns the states of a short text, by the number that transformers gives them."""
    size = int(model.config.get_text_config().vocab_size)
    ids = torch.tensor([[size // 2, size // 3]], device=model.device)
    return plain_pass(model, GrowingCache(), PassInput(ids, 0, states={number})).states[number]


def last_norm(model: "PreTrainedModel") -> nn.Module:
    """Returns the norm between a model's last layer and its head.

    Raises:
        ConfigError: its decoder does not call it `norm`, as most do.
    """
    untyped: Any = model
    decoder = untyped.get_decoder()
    if not hasattr(decoder, "norm"):
        raise ConfigError(
            f"target: {type(decoder).__name__} has no norm after its layers: expected a decoder"
            " such as Llama's for a drafter with an adapter"
        )
    norm: nn.Module = decoder.norm
    return norm
