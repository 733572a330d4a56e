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
    Store,
    is_packed,
    native_weights,
)
from outrider.extras.cpu.packed_linear import product
from outrider.targets.passes.cached_model import TOGETHER
from outrider.targets.passes.pass_input import Pass, PassInput

KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""The model types whose layers are: norm, attention, norm, gated feed-forward."""

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
    rows = _rows(model, x, weights.rotation(positions, x), inputs)
    if packing is not None:
        _pack(rows, packing)
    states: dict[int, Tensor] = {}
    layers: int = config.num_hidden_layers
    stops = {0, layers, *(number for number in inputs.states if 0 <= number < layers)}
    stores = _stores(rows, cache, layers, weights.cache_dtype)
    native = library()
    for first, last in pairwise(sorted(stops)):
        if first in inputs.states:
            states[first] = x.to(model.dtype, copy=True)
        native.outrider_layers(
            ctypes.byref(rows),
            ctypes.byref(weights.array, first * ctypes.sizeof(Layer)),
            ctypes.byref(stores, first * ctypes.sizeof(Store)),
            last - first,
        )
    head: Any = model.lm_head
    if asked := set(inputs.states) & {layers, -1}:
        x = weights.normalized(x)
        states |= dict.fromkeys(asked, x.to(model.dtype))
        return Pass(product(head, x[:, count - inputs.rows :]), states)
    return Pass(product(head, weights.normalized(x[:, count - inputs.rows :])), states)


def _rows(model: Any, x: Tensor, rotation: tuple[Tensor, Tensor], inputs: PassInput) -> NativePass:
    """Returns the rows of a pass; `x` holds their states, which each layer replaces in place."""
    layer = model.base_model.layers[0]
    attention, inner = layer.self_attn, layer.mlp.up_proj.out_features
    dim = attention.head_dim
    queries, keys = (part.out_features // dim for part in (attention.q_proj, attention.k_proj))
    rows = NativePass.over(x, rotation, (queries, keys, dim), inner, attention.scaling)
    rows.drafted = inputs.rows - 1 if 0 < inputs.rows <= TOGETHER else 0
    if inputs.mask is not None:
        rows.add_mask(inputs.mask)
    return rows


def _pack(rows: NativePass, packing: Packing) -> None:
    """Says where the rows' sequences lie."""
    owners, slots = packing.places
    rows.hold(owners=owners, slots=slots)
    if packing.prefixes is not None:
        owners, lengths = packing.prefixes
        rows.hold(prefix_owners=owners, prefix_lengths=lengths)


def _stores(rows: NativePass, cache: Any, layers: int, dtype: torch.dtype) -> ctypes.Array[Store]:
    """Reserves cache space for the new tokens; returns each layer's buffers.

    cache: its layers are `BufferLayer`s.
    """
    while len(cache.layers) < layers:
        cache.layers.append(cache.layer_class_to_replicate())
    shape = rows.texts, rows.kv_heads, rows.rows // rows.texts, rows.dim
    new = torch.empty(1, dtype=dtype).expand(shape)
    buffers = [layer.extend(new, new) for layer in cache.layers]
    rows.is_bfloat16 = buffers[0][0].dtype is torch.bfloat16
    slots = rows.held.get("slots")
    rows.kv_length = int(cache.get_seq_length() if slots is None else slots.max() + 1)
    return (Store * layers)(
        *(Store(keys.data_ptr(), values.data_ptr(), keys.shape[2]) for keys, values in buffers)
    )
