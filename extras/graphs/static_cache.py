"""Passes of a few sizes over a cache of fixed size, which a compiler can speed up."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, final
from weakref import WeakKeyDictionary, finalize

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers.cache_utils import Cache, CacheLayerMixin

from outrider.base.pretrained import Model
from outrider.targets.passes.growing_tensor import GrowingTensor
from outrider.targets.passes.masks import additive_mask, layer_masks
from outrider.targets.passes.pass_input import (
    PART,
    Pass,
    PassCache,
    PassInput,
    cache_argument,
    in_parts,
)
from outrider.targets.passes.placement import home

CAPACITY = 1024
"""How many tokens a new cache has room for; it doubles when it is full."""

SIZES = (1, 2, 4, 6, 8, 12, 16, 32)
"""The numbers of tokens of compiled passes. Fewer are padded; more than 32 run uncompiled."""

_free: "WeakKeyDictionary[nn.Module, list[_Buffers]]" = WeakKeyDictionary()
"""The buffers of each model's last text, for its next: a CUDA graph is recorded for addresses."""


@final
class _BufferLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """A layer whose passes write at `cache.slots`, and read whole buffers.

    Its length is always 0 to the model, which is told positions and masks: a number that changes
    would be compiled again each time.
    """

    is_sliding = False

    def __init__(self, cache: "_Buffers") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cache = cache

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.grown = tuple(GrowingTensor(spare=CAPACITY, zeros=True) for _ in range(2))
        self.buffers = [key_states, value_states]  # until there are any, tensors of their shape
        self.reserve(self._cache.reserved)
        self.is_initialized = True

    def reserve(self, tokens: int) -> None:
        """Makes room for at least `tokens` tokens."""
        pairs = zip(self.grown, self.buffers, strict=True)
        self.buffers = [grown.reserve(tokens, like) for grown, like in pairs]
        for buffer in self.buffers:
            # Without this no CUDA graph would be made, since a pass writes to what it is given.
            torch._dynamo.mark_static_address(buffer)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        keys, values = self.buffers
        keys.index_copy_(2, self._cache.slots, key_states)
        values.index_copy_(2, self._cache.slots, value_states)
        return keys, values

    def get_seq_length(self) -> int:
        return 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.buffers[0].shape[2], 0

    def get_max_length(self) -> int:
        return -1


@final
class _Buffers(Cache):
    """transformers' cache of a compiled pass: its layers are made by the first pass.

    slots: where the next pass writes. reserved: the tokens that new layers have room for at least.
    """

    def __init__(self, device: torch.device) -> None:
        self.slots = torch.empty(0, dtype=torch.long, device=device)
        self.reserved = 0
        super().__init__(layer_class_to_replicate=partial(_BufferLayer, self))  # type: ignore[arg-type]

    @property
    def made(self) -> list[_BufferLayer]:
        """Returns the layers that the first pass has made."""
        layers: Any = self.layers
        made: list[_BufferLayer] = layers
        return made

    def clear(self) -> None:
        """Forgets a text."""
        for layer in self.made:
            for grown in layer.grown:
                grown.clear()


@final
class StaticCache(PassCache):
    """Keys and values of one sequence, in buffers that never move.

    A rollback only changes the length; what lies beyond it is masked, and overwritten later. The
    first pass of a text, in which buffers are made and modules prepare themselves, is not compiled.
    Texts after one another share their buffers.

    run: the compiled form of `uncompiled(model)`. judges: whether it takes judges too.
    """

    def __init__(self, model: Model, run: Callable[..., Any], *, judges: bool = False) -> None:
        self._model, self._run, self._judges, self._length = model, run, judges, 0
        free = _free.setdefault(model, [])
        self._buffers: _Buffers = lent(free, self, partial(_Buffers, home(model)))

    @property
    def layers(self) -> list[SimpleNamespace]:
        """Returns the keys and values of each layer, as transformers' caches do."""
        pairs = ([it[:, :, : self._length] for it in layer.buffers] for layer in self._buffers.made)
        return [SimpleNamespace(keys=keys, values=values) for keys, values in pairs]

    def get_seq_length(self) -> int:
        return self._length

    def crop(self, count: int) -> None:
        self._length += count

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        start = self._length - count
        indices = torch.tensor(
            [start + row for row in rows], dtype=torch.long, device=home(self._model)
        )
        for layer in self._buffers.made:
            for grown in layer.grown:
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
        is_compiled = self._length > 0 and any(size >= count for size in sizes)
        size = next(size for size in sizes if size >= count) if is_compiled else count
        capacity = self._reserve(self._length + size)
        slots = torch.arange(self._length, self._length + size, device=home(self._model))
        self._buffers.slots = slots
        positions = slots[None].clone()
        if inputs.positions is not None:
            positions[:, :count] = inputs.positions
        run = self._run if is_compiled else uncompiled(self._model)
        judges = inputs.judges if is_compiled and self._judges else None
        logits, states, *found = run(
            pad(inputs.ids, (0, size - count)),
            self._buffers,
            layer_masks(self._model, self.full_mask(inputs.mask, count, capacity)),
            positions,
            tuple(sorted(inputs.states)),
            **({"judges": judges} if judges else {}),
        )
        self._length += count
        # The next run of a graph overwrites its outputs.
        return Pass(
            logits[:, count - inputs.rows : count].clone(),
            {number: state[:, :count].clone() for number, state in states.items()},
            judges.verdicts(*found) if judges else (),
        )

    def full_mask(
        self, mask: Float[Tensor, "1 1 count kv_length"] | None, count: int, capacity: int
    ) -> Float[Tensor, "1 1 size capacity"]:
        """Returns `mask` extended to the padded size and whole buffers; the rest is a chain's."""
        slots = self._buffers.slots
        sees = torch.arange(capacity, device=slots.device) <= slots[:, None]
        full = additive_mask(sees, self._model.dtype)
        if mask is not None:
            full[:count, : self._length + count] = mask[0, 0]
        return full[None, None]

    def _reserve(self, tokens: int) -> int:
        """Makes room for at least `tokens` tokens in every layer; returns how many there is for."""
        layers = self._buffers.made
        for layer in layers:
            for grown in layer.grown:
                grown.hold(self._length)
            layer.reserve(tokens)
        self._buffers.reserved = tokens
        return int(layers[0].buffers[0].shape[2]) if layers else tokens + CAPACITY


def lent(free: list[Any], holder: object, make: Callable[[], Any]) -> Any:
    """Returns buffers that are kept when their holder is gone, unless others wait already.

    free: those that wait; `make` makes others.
    """

    def release() -> None:  # may run while a graph is recorded, so it computes nothing
        if not free:
            free.append(buffers)

    buffers = free.pop() if free else make()
    buffers.clear()
    finalize(holder, release).atexit = False
    return buffers


def uncompiled(model: Model) -> Callable[..., Any]:
    """Returns a function that runs a pass of a model's modules over a cache of fixed size."""
    name = cache_argument(type(model).forward)

    def run(
        ids: Int[Tensor, "1 size"],
        buffers: _Buffers,
        masks: Any,
        positions: Int[Tensor, "1 size"],
        states: Collection[int],
    ) -> tuple[Tensor, dict[int, Tensor]]:
        options: dict[str, Any] = {name: buffers, "output_hidden_states": bool(states)}
        output: Any = model(
            input_ids=ids, attention_mask=masks, position_ids=positions, use_cache=True, **options
        )
        return output.logits, {number: output.hidden_states[number] for number in states}

    return run
