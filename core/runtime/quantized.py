"""Quantized: a model whose linear layers have weights of eight bits, and share nothing else."""

import copy
from typing import TYPE_CHECKING, Any

from torch import nn

from outrider.errors import ConfigError
from outrider.runtime.linear import PackedLinear
from outrider.runtime.panels import Panels, can_panel

if TYPE_CHECKING:
    from transformers import PreTrainedModel

QUANTIZE = ("int8",)
"""What weights can be stored as."""


def quantized(model: "PreTrainedModel", setting: str) -> "PreTrainedModel":
    """Returns a model with weights of eight bits, which shares all other tensors of `model`.

    setting: the name of the setting that asks for it, for messages.

    Raises:
        ConfigError: the native library does not run the model's products.
    """
    require_native(model, setting)
    result: PreTrainedModel = _quantized(model)
    return result


def require_native(model: nn.Module, setting: str) -> None:
    """Raises `ConfigError` unless weights of eight bits can be multiplied with."""
    if not all(can_panel(parameter) for parameter in model.parameters()):
        raise ConfigError(
            f"{setting}='int8': expected a model in float32 on a CPU, and a C compiler (cc)"
        )
    layers = [module for module in model.modules() if isinstance(module, PackedLinear)]
    if any(isinstance(layer.packed, Panels) and layer.packed.is_quantized for layer in layers):
        raise ConfigError(f"{setting}='int8': the target's weights have eight bits already")


def _quantized(module: Any) -> Any:
    """Returns a module with quantized layers; modules without any are shared."""
    if type(module) is nn.Linear or isinstance(module, PackedLinear):
        return PackedLinear(module, quantize=True)
    children = {
        name: None if child is None else _quantized(child)
        for name, child in module._modules.items()
    }
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    shell = copy.copy(module)
    shell._modules = children
    return shell
