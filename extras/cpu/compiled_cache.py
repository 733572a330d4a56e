"""Passes of a few sizes over a cache of fixed size, which a compiler can speed up."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from outrider.extras.cpu.fused_decoder import fused_pass
from outrider.targets.passes.growing_tensor import GrowingTensor
from outrider.targets.passes.pass_input import PART, Pass, PassCache, PassInput, in_parts
from outrider.targets.passes.tree_mask import additive_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

CAPACITY = 1024
"""How many tokens a new cache has room for; it doubles when it is full."""

SIZES = (1, 2, 4, 6, 8, 12, 16, 32)
"""The numbers of tokens of compiled passes. Fewer are padded; more than 32 run uncompiled."""


@final
class _Buffers:
    """The cache of a compiled pass, which writes at `slots` and reads whole buffers."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.slots = torch.empty(0, dtype=torch.long)

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        self.keys[layer].index_copy_(2, self.slots, keys)
        self.values[layer].index_copy_(2, self.slots, values)
        return self.keys[layer], self.values[layer]

    def get_seq_length(self) -> int:
        return 0


@final
@dataclass(frozen=True, slots=True)
class _Layer:
    keys: Tensor
    values: Tensor


@final
class CompiledCache(PassCache):
    """Keys and values of one sequence, in buffers that never move.

    A rollback only changes the length; what lies beyond it is masked, and overwritten later.

    run: the compiled form of `uncompiled(model)`.
    """

    def __init__(self, model: "PreTrainedModel", run: Callable[..., Any]) -> None:
        config: Any = model.config
        self._model, self._run, self._length = model, run, 0
        layers, heads = int(config.num_hidden_layers), int(config.num_key_value_heads)
        dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._like = torch.empty((1, heads, 0, int(dim)), dtype=model.dtype, device=model.device)
        self._keys, self._values = (
            [GrowingTensor(spare=CAPACITY, zeros=True) for _ in range(layers)] for _ in range(2)
        )
        self._buffers = _Buffers()
        self._reserve(0)

    @property
    def layers(self) -> list[_Layer]:
        """Returns the keys and values of each layer, as transformers' caches do."""
        return [
            _Layer(keys[:, :, : self._length], values[:, :, : self._length])
            for keys, values in zip(self._buffers.keys, self._buffers.values, strict=True)
        ]

    def get_seq_length(self) -> int:
        return self._length

    def crop(self, count: int) -> None:
        self._length += count

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        start = self._length - count
        indices = torch.tensor(
            [start + row for row in rows], dtype=torch.long, device=self._model.device
        )
        for grown in (*self._keys, *self._values):
            grown.retain_rows(start, indices)
        self._length = start + len(rows)

    def feed(self, inputs: PassInput) -> Pass:
        """Appends tokens; a chain of more than `PART` in parts, none of which is compiled."""
        if inputs.mask is None and inputs.ids.shape[1] > PART:
            return in_parts(inputs, partial(self._append, sizes=()))
        return self._append(inputs)

    def _append(self, inputs: PassInput, sizes: Sequence[int] = SIZES) -> Pass:
        """Appends tokens, padded to the next of some sizes, which are compiled."""
        count = inputs.ids.shape[1]
        size = next((size for size in sizes if size >= count), count)
        self._reserve(self._length + size)
        self._buffers.slots = torch.arange(
            self._length, self._length + size, device=self._model.device
        )
        positions = self._buffers.slots[None].clone()
        if inputs.positions is not None:
            positions[:, :count] = inputs.positions
        run = self._run if size in sizes else uncompiled(self._model)
        logits, states = run(
            pad(inputs.ids, (0, size - count)),
            self._buffers,
            self._full_mask(inputs.mask, count),
            positions,
            tuple(sorted(inputs.states)),
        )
        self._length += count
        # The next run of a graph overwrites its outputs.
        return Pass(
            logits[:, count - inputs.rows : count].clone(),
            {number: state[:, :count].clone() for number, state in states.items()},
        )

    def _full_mask(
        self, mask: Float[Tensor, "1 1 count kv_length"] | None, count: int
    ) -> Float[Tensor, "1 1 size capacity"]:
        """Returns `mask` extended to the padded size and whole buffers; the rest is a chain's."""
        slots, capacity = self._buffers.slots, self._buffers.keys[0].shape[2]
        sees = torch.arange(capacity, device=slots.device) <= slots[:, None]
        full = additive_mask(sees, self._model.dtype)
        if mask is not None:
            full[:count, : self._length + count] = mask[0, 0]
        return full[None, None]

    def _reserve(self, tokens: int) -> None:
        """Makes room for at least `tokens` tokens in every layer."""
        self._buffers.keys = [grown.reserve(tokens, self._like) for grown in self._keys]
        self._buffers.values = [grown.reserve(tokens, self._like) for grown in self._values]


def uncompiled(model: "PreTrainedModel") -> Callable[..., Any]:
    """Returns a function that runs a pass over a cache of fixed size."""

    def run(
        ids: Int[Tensor, "1 size"],
        buffers: _Buffers,
        mask: Float[Tensor, "1 1 size capacity"],
        positions: Int[Tensor, "1 size"],
        states: Collection[int],
    ) -> tuple[Tensor, dict[int, Tensor]]:
        inputs = PassInput(ids, ids.shape[1], mask, positions, states)
        result = fused_pass(model, cast("Cache", buffers), inputs)
        return result.logits, result.states

    return run
