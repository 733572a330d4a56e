"""Quantized: a copy of a model whose linear layers have weights of eight bits."""

import copy
from typing import TYPE_CHECKING

import torch
from torch import nn

from outrider.errors import ConfigError
from outrider.runtime.linear import PackedLinear
from outrider.runtime.panels import Panels, can_panel
from outrider.runtime.shells import with_replaced

if TYPE_CHECKING:
    from transformers import PreTrainedModel

QUANTIZE = ("int8",)
"""The types that weights can be rounded to."""


def quantized(model: "PreTrainedModel", setting: str) -> "PreTrainedModel":
    """Returns a model with weights of eight bits, which shares all other tensors of `model`.

    In float64, which proofs use, the weights are rounded but stored in float64.

    setting: the name of the setting, for messages, such as "drafter quantized".

    Raises:
        ConfigError: the native library does not run the model's products.
    """
    if model.dtype is not torch.float64:
        require_native(model, setting)
    result: PreTrainedModel = with_replaced(model, _quantized)
    return result


def require_native(model: nn.Module, setting: str) -> None:
    """Raises `ConfigError` unless the native library can quantize a model's weights."""
    if not all(can_panel(parameter) for parameter in model.parameters()):
        raise ConfigError(
            f"{setting}: weights of eight bits need a model in float32 or bfloat16 on a CPU,"
            " and a C compiler"
        )
    layers = [module for module in model.modules() if isinstance(module, PackedLinear)]
    if any(isinstance(layer.packed, Panels) and layer.packed.is_quantized for layer in layers):
        raise ConfigError(f"{setting}: the model's weights have eight bits already")


def _quantized(module: nn.Module) -> nn.Module | None:
    """Returns the quantized form of a linear layer, None for any other module."""
    if type(module) is nn.Linear and module.weight.dtype is torch.float64:
        return _rounded(module)
    if type(module) is nn.Linear or isinstance(module, PackedLinear):
        return PackedLinear(module, quantize=True)
    return None


def _rounded(layer: nn.Linear) -> nn.Linear:
    """Returns a layer with its weights rounded to eight bits, in their own precision."""
    rounded = copy.copy(layer)
    weight = Panels(layer.weight.detach(), None, quantize=True).to_dense()
    rounded._parameters = layer._parameters | {"weight": nn.Parameter(weight, requires_grad=False)}
    return rounded
