"""A copy of a model whose linear layers have weights of eight or four bits."""

import copy
from typing import Any

import torch
from torch import nn

from outrider.base.pretrained import Model
from outrider.extras.cpu.engine import PackedWeights
from outrider.extras.cpu.packed_linear import PackedLinear, require_native
from outrider.extras.cpu.packed_matrix import Panels
from outrider.extras.cpu.panel_layout import DEPTH
from outrider.targets.passes.engine import note_engine
from outrider.targets.passes.module_copies import replace_modules


def quantized(model: Model, setting: str, bits: int | None = 8) -> Model:
    """Returns a model with weights of eight or four bits, which shares all else with `model`.

    In float64, which proofs use, the weights are rounded but stored in float64.

    setting: the name of the setting, for messages, such as "drafter quantized".
    bits: 8 or 4. None takes 4 for each layer whose weights are exact in four bits, and 8 for the
        others. The head always has eight, since it decides between all tokens, and so has a layer
        whose inputs don't make whole groups.

    Raises:
        ConfigError: the native library does not run the model's products.
    """
    if model.dtype is not torch.float64:
        require_native(model, setting)
    whole: Any = model
    head = whole.get_output_embeddings()

    def replaced(module: nn.Module) -> nn.Module | None:
        if not isinstance(module, PackedLinear) and type(module) is not nn.Linear:
            return None
        if bits == 8 or module is head or module.in_features % DEPTH:  # no whole groups
            return _quantized(module, 8)
        result = _quantized(module, 4)
        is_kept = bits == 4 or torch.equal(result.weight, module.weight.to(result.weight))
        return result if is_kept else _quantized(module, 8)

    result: Model = replace_modules(model, replaced)
    note_engine(result, PackedWeights())
    return result


def loses_nothing(model: Model) -> bool:
    """Returns whether a model that chose its own bits has four in every layer but the head.

    They are chosen where the weights are exact in them, as those of a GGUF file in Q4_1 are.
    """
    whole: Any = model
    head = whole.get_output_embeddings()
    layers = [
        part for part in model.modules() if isinstance(part, PackedLinear) and part is not head
    ]
    bits = [part.packed.bits for part in layers if isinstance(part.packed, Panels)]
    return bool(bits) and set(bits) == {4}


def _quantized(layer: "nn.Linear | PackedLinear", bits: int) -> "nn.Linear | PackedLinear":
    """Returns a layer with rounded weights."""
    if isinstance(layer, nn.Linear) and layer.weight.dtype is torch.float64:
        return _rounded(layer, bits)
    return PackedLinear(layer, bits=bits)


def _rounded(layer: nn.Linear, bits: int) -> nn.Linear:
    """Returns a layer with its weights rounded to 4 or 8 bits, in their own precision."""
    rounded = copy.copy(layer)
    packed = Panels(layer.weight.detach(), None, bits=bits)
    weight = packed.to_dense().to(layer.weight)
    rounded._parameters = layer._parameters | {"weight": nn.Parameter(weight, requires_grad=False)}
    return rounded
