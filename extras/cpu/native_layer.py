"""A trained network's decoder layer, in two calls of the native library."""

import ctypes
import math
from functools import cache
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from outrider.drafters.parts.networks.layer import KeysAndValues, RMSNorm
from outrider.drafters.parts.networks.rotary import Scaling, rotation
from outrider.extras.cpu.library import library
from outrider.extras.cpu.native_pass import LANES
from outrider.extras.cpu.native_weights import Entry, NativePass, exit_of, is_packed
from outrider.extras.cpu.packed_matrix import Matrix
from outrider.targets.passes.cached_model import TOGETHER
from outrider.targets.passes.masks import additive_mask

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
GATED = ("gate_proj", "up_proj", "down_proj")


def native_layer(
    layer: nn.Module, inputs: Float[Tensor, "batch tokens input"], residual: Tensor, **options: Any
) -> Float[Tensor, "batch tokens hidden"] | None:
    """Returns what `outrider.drafters.parts.networks.layer.layer_output` does.

    Returns None for layers that the library does not run, and for more than `TOGETHER` tokens,
    which are a text and not a draft.
    """
    is_draft = len(inputs) == 1 and inputs.shape[1] <= TOGETHER
    if not is_draft or inputs.dtype is not torch.float32:
        return None
    if layer not in _native:
        _native[layer] = _NativeLayer(layer) if _is_supported(layer) else None
    native = _native[layer]
    return None if native is None else native.run(inputs, residual, **options)


@final
class _NativeLayer:
    """The addresses of a layer's weights, which never move."""

    def __init__(self, layer: Any) -> None:
        projections = [getattr(layer.self_attn, name) for name in PROJECTIONS[:3]]
        self._config = layer.self_attn.config
        self._inner: int = layer.mlp.up_proj.out_features
        norm: RMSNorm = layer.post_attention_layernorm
        self._norm = norm.weight.detach()  # kept alive, since the library has only its address
        self._entry = Entry(matrices=(Matrix * 3)(*(part.packed.matrix for part in projections)))
        self._exit = exit_of(layer, self._norm.data_ptr(), norm.eps)

    def run(
        self,
        inputs: Float[Tensor, "1 tokens input"],
        residual: Float[Tensor, "1 tokens hidden"],
        *,
        positions: Int[Tensor, "1 tokens"],
        sees: Bool[Tensor, "1 1 tokens all"] | None,
        cache: KeysAndValues,
    ) -> Float[Tensor, "1 tokens hidden"]:
        """Returns what `layer_output` does."""
        config, native = self._config, library()
        queries, keys = config.num_attention_heads, config.num_key_value_heads
        inputs, x = inputs.contiguous(), residual.clone(memory_format=torch.contiguous_format)
        length, dim = 1 << int(positions.max()).bit_length(), config.head_dim
        table = _angles(length, dim, config.rope_theta, config.scaling)
        cosine, sine = (part[positions][:, :, None] for part in table)
        heads, scaling = (queries, keys, dim), 1 / math.sqrt(dim)
        native_pass = NativePass.over(inputs, (cosine, sine), heads, self._inner, scaling)
        native.outrider_enter(ctypes.byref(native_pass), ctypes.byref(self._entry))
        new = native_pass.held["qkv"][:, :, queries:].transpose(1, 2)
        all_keys, all_values = cache.extend(new[:, :keys], new[:, keys:])
        native_pass.hold(x=x, keys=all_keys, values=all_values)
        native_pass.head_stride, native_pass.kv_length = all_keys.stride(1), all_keys.shape[2]
        native_pass.width = x.shape[-1]
        if sees is not None:
            native_pass.add_mask(additive_mask(sees, x.dtype))
        native.outrider_leave(ctypes.byref(native_pass), ctypes.byref(self._exit))
        return x


_native: "WeakKeyDictionary[nn.Module, _NativeLayer | None]" = WeakKeyDictionary()


def _is_supported(layer: Any) -> bool:
    """Returns whether the library runs a layer: its products are native, its heads unnormed."""
    parts = [getattr(layer.self_attn, name) for name in PROJECTIONS]
    parts += [getattr(layer.mlp, name) for name in GATED]
    widths = (layer.self_attn.config.head_dim, *(part.in_features for part in parts))
    return (
        all(map(is_packed, parts))
        and isinstance(layer.self_attn.q_norm, nn.Identity)
        and layer.post_attention_layernorm.weight.dtype is torch.float32
        and not any(width % LANES for width in widths)
    )


@cache
def _angles(length: int, dim: int, theta: float, scaling: Scaling) -> tuple[Tensor, Tensor]:
    """Returns the cosine and sine [length, dim] of each position's angles.

    The library wants the first half of a sine to be negative.
    """
    positions = torch.arange(length)[None]
    cosine, sine = (part[0, 0] for part in rotation(positions, dim, theta, scaling=scaling))
    sine[:, : dim // 2].neg_()
    return cosine, sine
