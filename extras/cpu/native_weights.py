"""Where the native library finds a model's matrices, norms and rotation."""

import ctypes
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.base.pretrained import Model
from outrider.extras.cpu.library import library
from outrider.extras.cpu.packed_matrix import KINDS, Matrix, Panels
from outrider.extras.cpu.processor import native_threads

POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64


@final
class Entry(ctypes.Structure):
    """The weights before a layer's attention; the fields are those of the native library."""

    _fields_ = (
        ("matrices", Matrix * 3),
        *((name, POINTER) for name in ("norm", "q_norm", "k_norm")),
        ("epsilon", ctypes.c_float),
    )


@final
class Exit(ctypes.Structure):
    """The weights after a layer's attention."""

    _fields_ = (
        *((name, Matrix) for name in ("output", "gate", "up", "down")),
        ("norm", POINTER),
        ("epsilon", ctypes.c_float),
    )


@final
class Layer(ctypes.Structure):
    """A layer's weights."""

    _fields_ = (("entry", Entry), ("exit", Exit))


@final
class Store(ctypes.Structure):
    """Where a layer's keys and values lie: [texts, kv_heads, capacity, dim]."""

    _fields_ = (("keys", POINTER), ("values", POINTER), ("capacity", NUMBER))


@final
class NativePass(ctypes.Structure):
    """A pass over some rows.

    held: what its addresses are of, since the library has only these.
    """

    held: dict[str, Tensor]

    _fields_ = (
        *((name, NUMBER) for name in ("rows", "width", "dim", "heads", "kv_heads")),
        *((name, NUMBER) for name in ("texts", "threads", "drafted")),
        *((name, POINTER) for name in ("x", "normed", "qkv", "mixed", "active")),
        *((name, POINTER) for name in ("cosine", "sine", "keys", "values")),
        *((name, NUMBER) for name in ("is_bfloat16", "text_stride", "head_stride", "kv_length")),
        ("mask", POINTER),
        *((name, NUMBER) for name in ("mask_text_stride", "mask_row_stride")),
        *((name, POINTER) for name in ("owners", "slots", "prefix_owners", "prefix_lengths")),
        ("scaling", ctypes.c_float),
    )

    @classmethod
    def over(
        cls,
        x: Float[Tensor, "texts tokens width"],
        rotation: tuple[Tensor, Tensor],
        heads: tuple[int, int, int],
        inner: int,
        scaling: float,
    ) -> "NativePass":
        """Returns a pass over rows, in buffers that its layers share.

        rotation: cosine and sine of each row's position, as `rotation_of` returns them.
        heads: the numbers of those of queries and of keys, and their width.
        inner: the width of the feed-forward layers. scaling: that of attention's scores.
        """
        texts, count, width = x.shape
        rows, (queries, keys, dim) = texts * count, heads
        sizes = {"rows": rows, "width": width, "dim": dim, "heads": queries, "kv_heads": keys}
        made = cls(**sizes, texts=texts, threads=native_threads(), scaling=scaling)
        made.held = {}
        made.hold(
            x=x,
            normed=x.new_empty(rows, width),
            qkv=x.new_empty(texts, count, queries + 2 * keys, dim),
            mixed=x.new_empty(rows, queries * dim),
            active=x.new_empty(rows, inner),
            cosine=rotation[0].expand(texts, count, 1, dim).contiguous(),
            sine=rotation[1].expand(texts, count, 1, dim).contiguous(),
        )
        return made

    def hold(self, **buffers: Tensor) -> None:
        """Sets the addresses of buffers, by the names of their fields."""
        self.held |= buffers
        for name, buffer in buffers.items():
            setattr(self, name, buffer.data_ptr())

    def add_mask(self, mask: Float[Tensor, "texts 1 tokens all"]) -> None:
        """Has a mask added to attention's scores."""
        mask = mask.float().contiguous()
        self.hold(mask=mask)
        self.mask_text_stride = mask.stride(0) if len(mask) > 1 else 0
        self.mask_row_stride = mask.stride(2)


CHANGING = ("dynamic", "longrope")
"""Rotations whose frequencies depend on how long the text is."""


def rotation_of(rotary: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the cosine and the signed sine of each position, as the library takes them."""
    cosine, sine = rotary(x, positions)
    half = sine.shape[-1] // 2
    sine = torch.cat([-sine[..., :half], sine[..., half:]], dim=-1)
    return cosine[:, :, None], sine[:, :, None]


@final
class NativeWeights:
    """The addresses of each layer's weights, which never move.

    array: all layers, next to each other.
    cache_dtype: the precision of keys and values in the cache.
    """

    def __init__(self, model: Any) -> None:
        self._norms: list[Tensor] = []  # kept alive, since the library has only their addresses
        layers = model.base_model.layers
        self.array: Any = (Layer * len(layers))(
            *(Layer(self._entry(layer), self._exit(layer)) for layer in layers)
        )
        self.cache_dtype: Any = _cache_dtype(layers)
        self._rotary: Any = model.base_model.rotary_emb
        self._table: tuple[Tensor, ...] = (torch.empty(0),)
        norm = model.base_model.norm
        self._last = None if isinstance(norm, nn.Identity) else self._address(norm)
        self._epsilon = ctypes.c_float(getattr(norm, "variance_epsilon", 0))

    def rotation(self, positions: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what `rotation_of` does, from a table where it depends on the position alone."""
        if any(name in self._rotary.rope_type for name in CHANGING):
            return rotation_of(self._rotary, x, positions)
        needed = int(positions.max()) + 1
        if needed > len(self._table[0]):
            first = torch.arange(1 << (needed - 1).bit_length())[None]
            self._table = tuple(part[0, :, 0] for part in rotation_of(self._rotary, x, first))
        cosine, sine = (part[positions][:, :, None] for part in self._table)
        return cosine, sine

    def normalized(self, x: Float[Tensor, "batch tokens width"]) -> Tensor:
        """Returns states after the model's last norm, if it has one."""
        if self._last is None:
            return x
        x = x.contiguous()
        result = torch.empty_like(x)
        library().outrider_normalize(
            *map(ctypes.c_void_p, (x.data_ptr(), self._last, result.data_ptr())),
            *map(ctypes.c_int64, (x.shape[:-1].numel(), x.shape[-1])),
            self._epsilon,
        )
        return result

    def _entry(self, layer: Any) -> Entry:
        module, norm = layer.self_attn, layer.input_layernorm
        projections = (module.q_proj, module.k_proj, module.v_proj)
        return Entry(
            matrices=(Matrix * 3)(*(projection.packed.matrix for projection in projections)),
            norm=self._address(norm),
            q_norm=self._address(module.q_norm) if hasattr(module, "q_norm") else None,
            k_norm=self._address(module.k_norm) if hasattr(module, "k_norm") else None,
            epsilon=norm.variance_epsilon,
        )

    def _exit(self, layer: Any) -> Exit:
        norm = layer.post_attention_layernorm
        return exit_of(layer, self._address(norm), norm.variance_epsilon)

    def _address(self, norm: Any) -> int:
        self._norms.append(norm.weight.detach().float())
        return self._norms[-1].data_ptr()


def exit_of(layer: Any, norm: int, epsilon: float) -> Exit:
    """Returns the weights after a layer's attention. norm: the address of its second norm's."""
    return Exit(
        output=layer.self_attn.o_proj.packed.matrix,
        gate=layer.mlp.gate_proj.packed.matrix,
        up=layer.mlp.up_proj.packed.matrix,
        down=layer.mlp.down_proj.packed.matrix,
        norm=norm,
        epsilon=epsilon,
    )


def _cache_dtype(layers: Any) -> torch.dtype:
    """Returns the precision of the keys and values that some layers keep.

    It is bfloat16 if the library rounds keys and values anyway.
    """
    kinds = {
        getattr(layer.self_attn, name).packed.matrix.kind
        for layer in layers
        for name in ("q_proj", "k_proj", "v_proj", "o_proj")
    }
    is_bfloat16 = kinds == {KINDS[torch.bfloat16]} and library().outrider_attends_in_short(*kinds)
    return torch.bfloat16 if is_bfloat16 else torch.float32


_weights: "WeakKeyDictionary[Model, NativeWeights]" = WeakKeyDictionary()


def native_weights(model: Model) -> NativeWeights:
    """Returns a model's weights, which are looked up once for each model."""
    if model not in _weights:
        _weights[model] = NativeWeights(model)
    return _weights[model]


def is_packed(module: Any) -> bool:
    """Returns whether the library multiplies with a layer's weights."""
    return isinstance(getattr(module, "packed", None), Panels)
