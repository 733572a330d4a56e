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
from outrider.extras.cpu.native_pass import FEW, LANES
from outrider.extras.cpu.native_weights import Entry, Exit, NativePass
from outrider.extras.cpu.packed_matrix import Matrix, Panels
from outrider.extras.cpu.processor import native_threads
from outrider.targets.passes.masks import additive_mask

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
GATED = ("gate_proj", "up_proj", "down_proj")


def native_layer(
    layer: nn.Module, inputs: Float[Tensor, "batch tokens input"], residual: Tensor, **options: Any
) -> Float[Tensor, "batch tokens hidden"] | None:
    """Returns what `outrider.drafters.parts.networks.layer.layer_output` does.

    Returns None for layers that the library does not run, and for more than `FEW` tokens, which
    are a text and not a draft.
    """
    if len(inputs) > 1 or inputs.shape[:-1].numel() > FEW or inputs.dtype is not torch.float32:
        return None
    if layer not in _native:
        _native[layer] = _NativeLayer(layer) if _is_supported(layer) else None
    native = _native[layer]
    return None if native is None else native.run(inputs, residual, **options)


@final
class _NativeLayer:
    """The addresses of a layer's weights, which never move."""

    def __init__(self, layer: Any) -> None:
        projections = [getattr(layer.self_attn, name) for name in PROJECTIONS]
        gated = [getattr(layer.mlp, name) for name in GATED]
        self._config = layer.self_attn.config
        self._inner: int = gated[0].out_features
        norm: RMSNorm = layer.post_attention_layernorm
        self._norm = norm.weight.detach()  # kept alive, since the library has only its address
        self._entry = Entry(
            matrices=(Matrix * 3)(*(part.packed.matrix for part in projections[:3]))
        )
        matrices = (part.packed.matrix for part in (projections[3], *gated))
        self._exit = Exit(
            **dict(zip(("output", "gate", "up", "down"), matrices, strict=True)),
            norm=self._norm.data_ptr(),
            epsilon=norm.eps,
        )

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
        native, config, count = library(), self._config, inputs.shape[1]
        assert native is not None
        heads, kv_heads, dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        inputs, x = inputs.contiguous(), residual.clone(memory_format=torch.contiguous_format)
        length = 1 << int(positions.max()).bit_length()
        table = _angles(length, dim, config.rope_theta, config.scaling)
        cosine, sine = (part[positions[0]] for part in table)
        qkv = x.new_empty(1, count, heads + 2 * kv_heads, dim)
        buffers = {
            "x": inputs,
            "normed": torch.empty_like(inputs),
            "qkv": qkv,
            "mixed": x.new_empty(count, heads * dim),
            "active": x.new_empty(count, self._inner),
            "cosine": cosine,
            "sine": sine,
        }
        native_pass = NativePass(
            rows=count,
            width=inputs.shape[-1],
            dim=dim,
            heads=heads,
            kv_heads=kv_heads,
            texts=1,
            threads=native_threads(),
            scaling=1 / math.sqrt(dim),
            **{name: tensor.data_ptr() for name, tensor in buffers.items()},
        )
        native.outrider_enter(ctypes.byref(native_pass), ctypes.byref(self._entry))
        new = qkv[:, :, heads:].transpose(1, 2)
        keys, values = cache.extend(new[:, :kv_heads], new[:, kv_heads:])
        native_pass.keys, native_pass.values = keys.data_ptr(), values.data_ptr()
        native_pass.head_stride, native_pass.kv_length = keys.stride(1), keys.shape[2]
        mask = None if sees is None else additive_mask(sees, x.dtype)
        if mask is not None:
            native_pass.mask, native_pass.mask_row_stride = mask.data_ptr(), mask.stride(2)
        native_pass.x, native_pass.width = x.data_ptr(), x.shape[-1]
        native.outrider_leave(ctypes.byref(native_pass), ctypes.byref(self._exit))
        return x


_native: "WeakKeyDictionary[nn.Module, _NativeLayer | None]" = WeakKeyDictionary()


def _is_supported(layer: Any) -> bool:
    """Returns whether the library runs a layer: its products are native, its heads unnormed."""
    parts = [getattr(layer.self_attn, name) for name in PROJECTIONS]
    parts += [getattr(layer.mlp, name) for name in GATED]
    widths = (layer.self_attn.config.head_dim, *(part.in_features for part in parts))
    return (
        all(isinstance(getattr(part, "packed", None), Panels) for part in parts)
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
