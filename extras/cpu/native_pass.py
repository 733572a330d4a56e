"""Runs a decoder of Llama's kind in the native library, all layers in one call."""

import ctypes
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from outrider.base.pretrained import Cache, Model
from outrider.extras.cpu.library import library
from outrider.extras.cpu.native_weights import (
    Layer,
    NativePass,
    NativeWeights,
    Store,
    is_packed,
    native_weights,
)
from outrider.extras.cpu.packed_linear import product
from outrider.extras.cpu.processor import native_threads
from outrider.targets.passes.pass_input import Pass, PassInput

KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""The model types whose layers are: norm, attention, norm, gated feed-forward."""

FEW = 64
"""Up to so many rows of a pass, and of a draft behind more, are attended to one by one."""

LANES = 16
"""How many numbers the library takes at once; the widths of a head and a state are multiples."""


@final
@dataclass(frozen=True, slots=True)
class Packing:
    """Where the tokens of several sequences lie, which a pass reads as if they were one.

    places: the row of each token's sequence, and the token's position there. Without a mask, it
        sees all of its row up to that position.
    prefixes: for each row of the cache, the row that owns its first tokens, and how many of them.
        By default each row owns its tokens.
    """

    places: Int[Tensor, "2 tokens"]
    prefixes: Int[Tensor, "2 rows"] | None


def is_used_for(model: Model) -> bool:
    """Returns whether the library runs a model: it is of one of the kinds, packed, and of fit size.

    Models with attention windows or another activation function, and those that wrap another
    model, as PEFT's do, are left to transformers.
    """
    config: Any = model.config
    layers: Any = getattr(getattr(model, "model", None), "layers", None)
    types = set(getattr(config, "layer_types", None) or ["full_attention"])
    has_windows = types != {"full_attention"} or getattr(config, "sliding_window", None)
    if config.model_type not in KINDS or layers is None or has_windows:
        return False
    attention = layers[0].self_attn
    fits = not any(size % LANES for size in (config.hidden_size, attention.head_dim))
    return fits and config.hidden_act == "silu" and is_packed(attention.q_proj)


def native_pass(
    model: Model, cache: Cache, inputs: PassInput, packing: Packing | None = None
) -> Pass:
    """Appends tokens to a cache, and returns their logits and states.

    A row's logits don't depend on the rows beside it, to the last bit, up to 64 rows in a pass, and
    neither do those of a draft behind more: read as a draft, a text gets the logits that it gets
    token by token.

    Whatever the precision of the weights, the states between layers and the logits are float32. The
    cache is too, unless its numbers are rounded to bfloat16 anyway.

    packing: where the tokens of several sequences lie. By default each row of the input has one.
    """
    base: Any = model.base_model
    config: Any = model.config
    count, cached = inputs.ids.shape[1], int(cache.get_seq_length())
    x = base.embed_tokens(inputs.ids).float()
    positions = inputs.positions
    if positions is None:
        positions = torch.arange(cached, cached + count)[None]
    weights = native_weights(model)
    rows = _Rows(model, x, weights.rotation(positions, x), inputs, packing)
    states: dict[int, Tensor] = {}
    layers: int = config.num_hidden_layers
    stops = {0, layers, *(number for number in inputs.states if 0 <= number < layers)}
    stores = rows.stores(cache, layers, weights.cache_dtype)
    for first, last in pairwise(sorted(stops)):
        if first in inputs.states:
            states[first] = x.to(model.dtype, copy=True)
        rows.run(weights, stores, first, last)
    head: Any = model.lm_head
    if asked := set(inputs.states) & {layers, -1}:
        x = weights.normalized(x)
        states |= dict.fromkeys(asked, x.to(model.dtype))
        return Pass(product(head, x[:, count - inputs.rows :]), states)
    return Pass(product(head, weights.normalized(x[:, count - inputs.rows :])), states)


@final
class _Rows:
    """The rows of a pass, in buffers that its layers share.

    x: the states [batch, tokens, width], which each layer replaces in place.
    rotation: cosine and sine of each row's position, as `rotation_of` returns them.
    inputs, packing: as in `native_pass`.
    """

    def __init__(
        self,
        model: Any,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        inputs: PassInput,
        packing: Packing | None,
    ) -> None:
        mask = inputs.mask
        layer = model.base_model.layers[0]
        batch, count, width = x.shape
        rows, dim = batch * count, layer.self_attn.head_dim
        heads, kv_heads = (
            projection.out_features // dim
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj)
        )
        buffers = {
            "x": x,
            "normed": x.new_empty(rows, width),
            "qkv": x.new_empty(rows, heads + 2 * kv_heads, dim),
            "mixed": x.new_empty(rows, heads * dim),
            "active": x.new_empty(rows, layer.mlp.up_proj.out_features),
            "cosine": rotation[0].expand(batch, count, 1, dim).contiguous(),
            "sine": rotation[1].expand(batch, count, 1, dim).contiguous(),
        }
        if mask is not None:
            buffers["mask"] = mask = mask.float().contiguous()
        self._buffers = buffers  # kept alive, since the library has only their addresses
        self._packing, self._kept = packing, (batch, kv_heads, count, dim)
        self._pass = NativePass(
            rows=rows,
            width=width,
            dim=dim,
            heads=heads,
            kv_heads=kv_heads,
            texts=batch,
            threads=native_threads(),
            drafted=inputs.rows - 1 if 0 < inputs.rows <= FEW else 0,
            scaling=layer.self_attn.scaling,
            **{name: tensor.data_ptr() for name, tensor in buffers.items()},
        )
        if mask is not None:
            self._pass.mask_text_stride = mask.stride(0) if len(mask) > 1 else 0
            self._pass.mask_row_stride = mask.stride(2)
        if packing is not None:
            self._pass.owners, self._pass.slots = (part.data_ptr() for part in packing.places)
            if packing.prefixes is not None:
                owners, lengths = packing.prefixes
                self._pass.prefix_owners = owners.data_ptr()
                self._pass.prefix_lengths = lengths.data_ptr()

    def stores(self, cache: Any, layers: int, dtype: torch.dtype) -> ctypes.Array[Store]:
        """Reserves cache space for the new tokens; returns each layer's buffers.

        cache: its layers are `BufferLayer`s.
        """
        while len(cache.layers) < layers:
            cache.layers.append(cache.layer_class_to_replicate())
        new = torch.empty(1, dtype=dtype).expand(self._kept)
        buffers = [layer.extend(new, new) for layer in cache.layers]
        self._pass.is_bfloat16 = buffers[0][0].dtype is torch.bfloat16
        places = None if self._packing is None else self._packing.places[1]
        self._pass.kv_length = int(cache.get_seq_length() if places is None else places.max() + 1)
        return (Store * layers)(
            *(Store(keys.data_ptr(), values.data_ptr(), keys.shape[2]) for keys, values in buffers)
        )

    def run(
        self, weights: NativeWeights, stores: ctypes.Array[Store], first: int, last: int
    ) -> None:
        """Runs the layers from `first` to `last` in one call."""
        native = library()
        assert native is not None
        native.outrider_layers(
            ctypes.byref(self._pass),
            ctypes.byref(weights.array, first * ctypes.sizeof(Layer)),
            ctypes.byref(stores, first * ctypes.sizeof(Store)),
            last - first,
        )
