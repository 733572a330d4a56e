"""The native pass: runs a decoder of Llama's kind in the native library, all layers in one call."""

import ctypes
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor
from torch.nn.functional import embedding

from outrider.extras.cpu import byte_counter as reads
from outrider.extras.cpu.attention import attention, folded_mask
from outrider.extras.cpu.c_structures import Layer, NativePass, Store
from outrider.extras.cpu.library import library
from outrider.extras.cpu.native_weights import NativeWeights, is_packed, native_weights
from outrider.extras.cpu.packed_linear import product
from outrider.extras.cpu.threads import native_threads
from outrider.targets.passes.cache import blocks
from outrider.targets.passes.pass_input import Pass, PassInput

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

LANES = 16
"""How many numbers the library takes at once; the widths of a head and a state are multiples."""

ROWS = 64
"""The most rows of a pass of padded texts, or of a tree, whose attention the library computes.

For more, PyTorch does. Chains of any number of rows are the library's, and texts side by side.
"""


def is_used_for(model: "PreTrainedModel") -> bool:
    """Returns whether the library runs a model that the flat pass supports."""
    base: Any = model.base_model
    attention = base.layers[0].self_attn
    sizes = (model.config.hidden_size, attention.head_dim)
    return is_packed(attention.q_proj) and not any(size % LANES for size in sizes)


def native_pass(model: "PreTrainedModel", cache: "Cache", inputs: PassInput) -> Pass:
    """Appends tokens to a cache, and returns their logits and states.

    A row's logits don't depend on the rows beside it, to the last bit, as long as the pass has at
    most `ROWS` rows: a text read as a draft gets the same logits as one read token by token.

    Whatever the precision of the weights, the states between layers and the logits are float32. The
    cache is too, unless its numbers are rounded to bfloat16 anyway.
    """
    base: Any = model.base_model
    config: Any = model.config
    count, known = inputs.ids.shape[1], int(cache.get_seq_length())
    x = embedding(inputs.ids, base.embed_tokens.weight).float()
    positions = inputs.positions
    if positions is None:
        positions = torch.arange(known, known + count)[None]
    weights = native_weights(model)
    rows = _Rows(model, x, weights.rotation(positions, x), inputs, known)
    states: dict[int, Tensor] = {}
    layers: int = config.num_hidden_layers
    stops = {0, layers, *(number for number in inputs.states if 0 <= number < layers)}
    stores = rows.stores(cache, layers, weights.kept) if rows.attend_there else None
    for first, last in pairwise(sorted(stops)):
        if first in inputs.states:
            states[first] = x.to(model.dtype, copy=True)
        if stores is not None:
            rows.run(weights, stores, first, last)
        else:
            rows.run_one_by_one(weights, cache, first, last)
    if reads.is_counting():
        reads.add(sum(weights.sizes[:layers]))
        reads.add(rows.cached_bytes(cache, weights.kept) * layers if rows.attend_there else 0)
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
    known: the number of tokens in the cache.
    """

    def __init__(
        self, model: Any, x: Tensor, rotation: tuple[Tensor, Tensor], inputs: PassInput, known: int
    ) -> None:
        layer = model.base_model.layers[0]
        self._attention, self._inputs = layer.self_attn, inputs
        batch, count, width = x.shape
        rows, dim = batch * count, layer.self_attn.head_dim
        self._heads, self._narrow = (
            projection.out_features // dim
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj)
        )
        self._qkv = x.new_empty(batch, count, self._heads + 2 * self._narrow, dim)
        keys, values = torch.split(self._qkv[:, :, self._heads :], self._narrow, dim=2)
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
            narrow=self._narrow,
            texts=batch,
            threads=native_threads(),
            scaling=layer.self_attn.scaling,
            **{name: tensor.data_ptr() for name, tensor in buffers.items()},
        )
        if inputs.places is not None:
            self._pass.owners, self._pass.slots = (part.data_ptr() for part in inputs.places)
        if inputs.origins is not None:
            self._pass.origins, self._pass.counts = (part.data_ptr() for part in inputs.origins)
        self._set_mask()
        self._folded: Tensor | None = None
        if not self.attend_there:
            shared = self._heads // self._narrow
            self._folded = folded_mask(inputs.mask, count, known, shared, x)

    @property
    def attend_there(self) -> bool:
        """Returns whether the library computes attention, not PyTorch."""
        is_chain = self._pass.texts == 1 and self._inputs.mask is None
        return bool(self._pass.rows <= ROWS or is_chain or self._pass.owners)

    def cached_bytes(self, cache: "Cache", kept: torch.dtype) -> int:
        """Returns the bytes of a layer's keys and values in a cache, all texts together."""
        heads = self.keys[..., 0, :]
        return 2 * heads.numel() * kept.itemsize * int(cache.get_seq_length())

    def stores(self, cache: "Cache", layers: int, kept: torch.dtype) -> ctypes.Array[Store] | None:
        """Counts the new tokens into a cache, and returns where each layer's are to be put."""
        number = self.keys.new_empty(1, dtype=kept)
        keys, values = number.expand_as(self.keys), number.expand_as(self.values)
        rooms = blocks(cache, keys, values, layers)
        if rooms is None:
            return None
        self._pass.is_short = rooms[0][0].dtype is torch.bfloat16
        self._pass.all = self._width(cache)
        return (Store * layers)(
            *(Store(keys.data_ptr(), values.data_ptr(), keys.shape[2]) for keys, values in rooms)
        )

    def _width(self, cache: "Cache") -> int:
        """Returns how far into a cache the rows may see."""
        if self._inputs.places is not None:
            return int(self._inputs.places[1].max()) + 1
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

    def run_one_by_one(self, weights: NativeWeights, cache: "Cache", first: int, last: int) -> None:
        """Runs the layers from `first` to `last` around a cache's own `update`."""
        native = library()
        assert native is not None
        native_pass = ctypes.byref(self._pass)
        for index in range(first, last):
            layer = weights.array[index]
            native.outrider_enter(native_pass, ctypes.byref(layer.entry))
            keys, values = self.keys.to(weights.kept), self.values.to(weights.kept)
            self._attend(*cache.update(keys, values, index))
            native.outrider_leave(native_pass, ctypes.byref(layer.exit))

    def _attend(self, keys: Tensor, values: Tensor) -> None:
        """Attends to some keys and values [batch, heads, all, dim], or has `leave` do it."""
        if not self.attend_there:
            self._mixed.copy_(
                attention(
                    self._qkv[:, :, : self._heads],
                    keys.float(),
                    values.float(),
                    self._attention.scaling,
                    folded=self._folded,
                    widths=self._inputs.widths,
                )
            )
            return
        assert keys.stride() == values.stride()
        assert keys.stride()[2:] == (keys.shape[3], 1)
        self._pass.is_short = keys.dtype is torch.bfloat16
        self._pass.keys, self._pass.values = keys.data_ptr(), values.data_ptr()
        self._pass.text_stride, self._pass.head_stride = keys.stride()[:2]
        self._pass.all = keys.shape[2]

    def _set_mask(self) -> None:
        mask = self._inputs.mask
        if mask is None:
            return
        mask = self._buffers["mask"] = mask.float().contiguous()
        self._pass.mask = mask.data_ptr()
        self._pass.mask_text_stride = mask.stride(0) if len(mask) > 1 else 0
        self._pass.mask_row_stride = mask.stride(2)
