"""Stems: a model's first layers and the states behind them, before any norm or head."""

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from outrider.errors import ConfigError
from outrider.runtime.first_layers import first_layers
from outrider.runtime.passes import PassInput
from outrider.runtime.shells import with_replaced
from outrider.runtime.step import new_cache, run_pass

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
    size = int(model.config.get_text_config().vocab_size)
    ids = torch.tensor([[size // 2, size // 3]], device=model.device)
    whole, own = (
        run_pass(each, new_cache(each), PassInput(ids, 0, states={number})).states[number].float()
        for each, number in ((model, layers), (cut, -1))
    )
    if not torch.allclose(own, whole, atol=0.01 * float(whole.std())):
        name = type(model).__name__
        raise ConfigError(f"drafter.layers={layers}: {name} has other states after these layers")
    return cut


def last_norm(model: "PreTrainedModel") -> nn.Module:
    """Returns the norm between a model's last layer and its head.

    Raises:
        ConfigError: its decoder does not call it `norm`, as most do.
    """
    untyped: Any = model
    decoder = untyped.get_decoder()
    if not hasattr(decoder, "norm"):
        raise ConfigError(
            f"target: {type(decoder).__name__} has no norm behind its layers: expected a decoder"
            " such as Llama's for a drafter with an adapter"
        )
    norm: nn.Module = decoder.norm
    return norm
