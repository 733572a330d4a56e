"""Runs a decoder of Llama's kind in the native library, all layers in one call."""

import ctypes
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import embedding

from outrider.base.pretrained import Cache, Model
from outrider.extras.cpu.attention import attention, gqa_mask
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
from outrider.targets.passes import byte_counter
from outrider.targets.passes.growing_cache import BufferLayer
from outrider.targets.passes.pass_input import Pass, PassInput

KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""The model types whose layers are: norm, attention, norm, gated feed-forward."""

LANES = 16
"""How many numbers the library takes at once; the widths of a head and a state are multiples."""

ROWS = 64
"""The most rows of a pass of padded texts, or of a tree, whose attention the library computes.

For more, PyTorch does. Chains of any number of rows are the library's, and texts side by side.
"""


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

    A row's logits don't depend on the rows beside it, to the last bit, as long as the pass has at
    most `ROWS` rows: a text read as a draft gets the same logits as one read token by token.

    Whatever the precision of the weights, the states between layers and the logits are float32. The
    cache is too, unless its numbers are rounded to bfloat16 anyway.

    packing: where the tokens of several sequences lie. By default each row of the input has one.
    """
    base: Any = model.base_model
    config: Any = model.config
    count, cached = inputs.ids.shape[1], int(cache.get_seq_length())
    x = embedding(inputs.ids, base.embed_tokens.weight).float()
    positions = inputs.positions
    if positions is None:
        positions = torch.arange(cached, cached + count)[None]
    weights = native_weights(model)
    rows = _Rows(model, x, weights.rotation(positions, x), inputs, cached, packing=packing)
    states: dict[int, Tensor] = {}
    layers: int = config.num_hidden_layers
    stops = {0, layers, *(number for number in inputs.states if 0 <= number < layers)}
    stores = rows.stores(cache, layers, weights.cache_dtype) if rows.attend_there else None
    for first, last in pairwise(sorted(stops)):
        if first in inputs.states:
            states[first] = x.to(model.dtype, copy=True)
        if stores is not None:
            rows.run(weights, stores, first, last)
        else:
            rows.run_one_by_one(weights, cache, first, last)
    if byte_counter.is_counting():
        byte_counter.add(sum(weights.sizes[:layers]))
        if rows.attend_there:
            byte_counter.add(rows.cached_bytes(cache, weights.cache_dtype) * layers)
    head: Any = model.lm_head
    if asked := set(inputs.states) & {layers, -1}:
        x = weights.normalized(x)
        states |= dict.fromkeys(asked, x.to(model.dtype))
        return Pass(product(head, x[:, count - inputs.rows :]), states)
    return Pass(product(head, weights.normalized(x[:, count - inputs.rows :])), states)


@final
class _Rows:
    """The rows of a pass, in buffers that its layers share.

    keys, values: the newest layer's, of the new tokens: [batch, heads, tokens, dim].
    x: the states [batch, tokens, width], which each layer replaces in place.
    rotation: cosine and sine of each row's position, as `rotation_of` returns them.
    cached: the number of tokens in the cache.
    packing: as in `native_pass`.
    """

    def __init__(
        self,
        model: Any,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        inputs: PassInput,
        cached: int,
        *,
        packing: Packing | None,
    ) -> None:
        layer = model.base_model.layers[0]
        self._attention, self._inputs, self._packing = layer.self_attn, inputs, packing
        batch, count, width = x.shape
        rows, dim = batch * count, layer.self_attn.head_dim
        self._heads, self._kv_heads = (
            projection.out_features // dim
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj)
        )
        self._qkv = x.new_empty(batch, count, self._heads + 2 * self._kv_heads, dim)
        keys, values = torch.split(self._qkv[:, :, self._heads :], self._kv_heads, dim=2)
        self.keys, self.values = keys.transpose(1, 2), values.transpose(1, 2)
        self._mixed = x.new_empty(batch, count, self._heads * dim)
        buffers = {
            "x": x,
            "normed": x.new_empty(rows, width),
            "qkv": self._qkv,
            "mixed": self._mixed,
            "active": x.new_empty(rows, layer.mlp.up_proj.out_features),
            "cosine": rotation[0].expand(batch, count, 1, dim).contiguous(),
            "sine": rotation[1].expand(batch, count, 1, dim).contiguous(),
        }
        self._buffers = buffers  # kept alive, since the library has only their addresses
        self._pass = NativePass(
            rows=rows,
            width=width,
            dim=dim,
            heads=self._heads,
            kv_heads=self._kv_heads,
            texts=batch,
            threads=native_threads(),
            scaling=layer.self_attn.scaling,
            **{name: tensor.data_ptr() for name, tensor in buffers.items()},
        )
        if packing is not None:
            self._pass.owners, self._pass.slots = (part.data_ptr() for part in packing.places)
            if packing.prefixes is not None:
                owners, lengths = packing.prefixes
                self._pass.prefix_owners = owners.data_ptr()
                self._pass.prefix_lengths = lengths.data_ptr()
        self._set_mask()
        self._gqa_mask: Tensor | None = None
        if not self.attend_there:
            queries_per_key = self._heads // self._kv_heads
            self._gqa_mask = gqa_mask(inputs.mask, count, cached, queries_per_key, x)

    @property
    def attend_there(self) -> bool:
        """Returns whether the library computes attention, not PyTorch."""
        is_chain = self._pass.texts == 1 and self._inputs.mask is None
        return bool(self._pass.rows <= ROWS or is_chain or self._pass.owners)

    def cached_bytes(self, cache: Cache, dtype: torch.dtype) -> int:
        """Returns the bytes of a layer's keys and values in a cache, all texts together."""
        heads = self.keys[..., 0, :]
        return 2 * heads.numel() * dtype.itemsize * int(cache.get_seq_length())

    def stores(self, cache: Cache, layers: int, dtype: torch.dtype) -> ctypes.Array[Store] | None:
        """Reserves cache space for the new tokens; returns each layer's buffers."""
        number = self.keys.new_empty(1, dtype=dtype)
        keys, values = number.expand_as(self.keys), number.expand_as(self.values)
        buffers = _extend_buffers(cache, keys, values, layers)
        if buffers is None:
            return None
        self._pass.is_bfloat16 = buffers[0][0].dtype is torch.bfloat16
        self._pass.kv_length = self._width(cache)
        return (Store * layers)(
            *(Store(keys.data_ptr(), values.data_ptr(), keys.shape[2]) for keys, values in buffers)
        )

    def _width(self, cache: Cache) -> int:
        """Returns how far into a cache the rows may see."""
        if self._packing is not None:
            return int(self._packing.places[1].max()) + 1
        return int(cache.get_seq_length())

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

    def run_one_by_one(self, weights: NativeWeights, cache: Cache, first: int, last: int) -> None:
        """Runs the layers from `first` to `last` around a cache's own `update`."""
        native = library()
        assert native is not None
        native_pass = ctypes.byref(self._pass)
        for index in range(first, last):
            layer = weights.array[index]
            native.outrider_enter(native_pass, ctypes.byref(layer.entry))
            keys, values = self.keys.to(weights.cache_dtype), self.values.to(weights.cache_dtype)
            self._attend(*cache.update(keys, values, index))
            native.outrider_leave(native_pass, ctypes.byref(layer.exit))

    def _attend(self, keys: Tensor, values: Tensor) -> None:
        """Attends to some keys and values [batch, heads, kv_length, dim], or has `leave` do it."""
        if not self.attend_there:
            self._mixed.copy_(
                attention(
                    self._qkv[:, :, : self._heads],
                    keys.float(),
                    values.float(),
                    self._attention.scaling,
                    self._gqa_mask,
                )
            )
            return
        assert keys.stride() == values.stride()
        assert keys.stride()[2:] == (keys.shape[3], 1)
        self._pass.is_bfloat16 = keys.dtype is torch.bfloat16
        self._pass.keys, self._pass.values = keys.data_ptr(), values.data_ptr()
        self._pass.text_stride, self._pass.head_stride = keys.stride()[:2]
        self._pass.kv_length = keys.shape[2]

    def _set_mask(self) -> None:
        mask = self._inputs.mask
        if mask is None:
            return
        mask = self._buffers["mask"] = mask.float().contiguous()
        self._pass.mask = mask.data_ptr()
        self._pass.mask_text_stride = mask.stride(0) if len(mask) > 1 else 0
        self._pass.mask_row_stride = mask.stride(2)


def _extend_buffers(
    cache: Cache, keys: Tensor, values: Tensor, layers: int
) -> list[tuple[Tensor, Tensor]] | None:
    """Reserves a cache's space for new tokens, and returns the buffers of each layer.

    None if the cache's layers lie in no buffers. Then nothing has been reserved.
    """
    known: Any = cache.layers
    make: Any = cache.layer_class_to_replicate
    while make is not None and len(known) < layers:
        known.append(make())
    if not all(isinstance(layer, BufferLayer) for layer in known):
        return None
    return [layer.extend(keys, values) for layer in known]
