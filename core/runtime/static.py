"""Static: passes of one shape over a cache of one room, which a compiler makes into a single graph."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.runtime import flat

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FIRST = 1024
"""Tokens that a cache has room for from the start; twice as many once they are full."""

SIZES = (1, 2, 4, 6, 8, 12, 16, 32)
"""Tokens of a compiled pass; fewer are padded, more are read as they are, without a graph."""

GRAPHS = 64
"""Graphs that a process may make."""

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]

_compiled: "WeakKeyDictionary[PreTrainedModel, Callable[..., Any]]" = WeakKeyDictionary()


def enable(model: "PreTrainedModel", compiler: Compiler | None = None) -> None:
    """Has the model's passes compiled, each size on its first use.

    compiler: what makes a fast function of one; torch.compile unless told, with CUDA graphs on a
        GPU ("reduce-overhead"). On a CPU its graphs could hold packed weights ("freezing"), but
        then each size holds its own, and still takes longer than `packed`.
    """
    if compiler is None:
        mode = "reduce-overhead" if model.device.type == "cuda" else "default"

        def compiler(function: Callable[..., Any]) -> Callable[..., Any]:
            return torch.compile(function, fullgraph=True, dynamic=False, mode=mode)

    # A graph for each size and room is meant, not an accident to be warned of.
    dynamo: Any = torch._dynamo.config
    dynamo.recompile_limit = max(dynamo.recompile_limit, GRAPHS)
    _compiled[model] = compiler(_plain(model))


def enabled(model: "PreTrainedModel") -> bool:
    """Returns whether the model's passes are compiled."""
    return model in _compiled


@final
class _Rooms:
    """What the flat pass sees of the cache: it writes at `slots` and reads everything."""

    def __init__(self, layers: int) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.slots = torch.empty(0, dtype=torch.long)
        self.layers = layers

    def update(self, keys: Tensor, values: Tensor, place: int) -> tuple[Tensor, Tensor]:
        self.keys[place].index_copy_(2, self.slots, keys)
        self.values[place].index_copy_(2, self.slots, values)
        return self.keys[place], self.values[place]

    def get_seq_length(self) -> int:
        return 0


@final
class StaticCache:
    """Keys and values of one text in rooms that stay where they are.

    A rollback moves a number; what lies behind it is masked, and written over.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        config: Any = model.config
        self._model, self._length = model, 0
        self._heads = int(config.num_key_value_heads)
        self._rooms = _Rooms(int(config.num_hidden_layers))
        self._widen(FIRST)

    def get_seq_length(self) -> int:
        """Returns the number of tokens."""
        return self._length

    def crop(self, count: int) -> None:
        """Takes the last -count tokens out."""
        self._length += count

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""
        start = self._length - count
        kept = torch.tensor([start + row for row in rows], device=self._model.device)
        for room in (*self._rooms.keys, *self._rooms.values):
            room[:, :, start : start + len(rows)] = room[:, :, kept.long()]
        self._length = start + len(rows)

    def feed(
        self,
        ids: Int[Tensor, "1 tokens"],
        rows: int,
        mask: Float[Tensor, "1 1 tokens all"] | None,
        positions: Int[Tensor, "1 tokens"] | None,
        states: Collection[int],
    ) -> tuple[Float[Tensor, "1 rows vocab"], dict[int, Float[Tensor, "1 tokens width"]]]:
        """Appends tokens, as `outrider.runtime.step.run_pass` does."""
        count = ids.shape[1]
        size = next((size for size in SIZES if size >= count), count)
        if self._length + size > self._rooms.keys[0].shape[2]:
            self._widen(2 * (self._length + size))
        device, room = self._model.device, self._rooms.keys[0].shape[2]
        places = torch.arange(self._length, self._length + size, device=device)
        everything = torch.arange(room, device=device)
        allowed = everything[None] <= places[:, None]
        full = torch.zeros(size, room, dtype=self._model.dtype, device=device)
        full.masked_fill_(~allowed, torch.finfo(self._model.dtype).min)
        if mask is not None:
            full[:count, : self._length + count] = mask[0, 0].clamp(min=full.min())
        where = places[None].clone()
        if positions is not None:
            where[:, :count] = positions
        padded = torch.nn.functional.pad(ids, (0, size - count))
        self._rooms.slots = places
        run = _compiled[self._model] if size in SIZES else _plain(self._model)
        logits, found = run(padded, self._rooms, full[None, None], where, tuple(sorted(states)))
        self._length += count
        # A graph's outputs are written over by its next run.
        return (
            logits[:, count - rows : count].clone(),
            {place: each[:, :count].clone() for place, each in found.items()},
        )

    def _widen(self, room: int) -> None:
        config: Any = self._model.config
        dim = int(
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        shape = (1, self._heads, room, dim)
        rooms = self._rooms
        for name in ("keys", "values"):
            old = getattr(rooms, name)
            new = [
                torch.zeros(shape, dtype=self._model.dtype, device=self._model.device)
                for _ in range(rooms.layers)
            ]
            for before, after in zip(old, new, strict=False):
                after[:, :, : before.shape[2]] = before
            setattr(rooms, name, new)

    @property
    def layers(self) -> list[Any]:
        """Returns what is there of each layer, as transformers' caches do."""
        return [
            _Layer(keys[:, :, : self._length], values[:, :, : self._length])
            for keys, values in zip(self._rooms.keys, self._rooms.values, strict=True)
        ]


@final
class _Layer:
    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values


def _plain(model: "PreTrainedModel") -> Callable[..., Any]:
    def run(ids: Tensor, rooms: _Rooms, mask: Tensor, positions: Tensor, states: Any) -> Any:
        loose: Any = rooms
        return flat.step(model, ids, loose, ids.shape[1], mask, positions, states)

    return run
