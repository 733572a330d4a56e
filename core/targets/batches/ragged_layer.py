"""One layer's keys and values of sequences of different lengths, a row for each."""

from dataclasses import dataclass, field
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from outrider.targets.passes.growing_cache import BufferLayer
from outrider.targets.passes.growing_tensor import GrowingTensor


@final
@dataclass(slots=True)
class Slots:
    """The rows of all layers, and the positions in them that a pass writes to.

    rows: how many rows there are. count: how many of them a pass is about, the first ones.
    capacity: how many tokens a new layer has room for, at least.
    texts: the row of each token. positions: its position there, below `width`. Both have the
        shape [batch, tokens] of the pass, or one that expands to it.
    """

    rows: int
    capacity: int = 0
    texts: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.long))
    positions: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.long))
    width: int = 0
    count: int = 0

    def write_to(self, texts: Tensor, positions: Tensor, count: int, width: int) -> None:
        """Sets where the next pass writes to, and how far into the cache it sees."""
        self.texts, self.positions = texts, positions
        self.count, self.width = count, width


@final
class RaggedLayer(BufferLayer):
    """The rows [texts, heads, tokens, dim], with all of their buffers.

    A pass reads and writes the first rows, as many as it has texts, at the slots.
    """

    keys: Any  # None before the first update
    values: Any

    def __init__(self, slots: Slots) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._slots = slots
        # Unwritten room is masked, but still multiplied: it must not be NaN.
        self._grown = (GrowingTensor(zeros=True), GrowingTensor(zeros=True))

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        slots = self._slots
        self.reserve(slots.width, key_states, value_states)
        for buffer, new in ((self.keys, key_states), (self.values, value_states)):
            buffer.transpose(1, 2)[slots.texts, slots.positions] = new.transpose(1, 2)
        count = slots.count
        return self.keys[:count, :, : slots.width], self.values[:count, :, : slots.width]

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.reserve(self._slots.width, keys, values)
        return self.keys, self.values

    def reserve(self, tokens: int, keys: Tensor, values: Tensor) -> None:
        """Makes room for at least `tokens` tokens of each text, shaped like `keys` and `values`."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            tokens = max(tokens, self._slots.capacity)
        self.keys, self.values = (
            grown.reserve(tokens, like[:1].expand(self._slots.rows, -1, -1, -1))
            for grown, like in zip(self._grown, (keys, values), strict=True)
        )

    def clear(self) -> None:
        """Forgets what is in all rows."""
        for grown in self._grown:
            grown.clear()

    def add_row(self) -> None:
        """Adds a row, a copy of the first."""
        rows = torch.tensor([*range(len(self.keys)), 0], device=self.keys.device)
        for grown in self._grown:
            grown.select(rows)
        self.reserve(0, self.keys, self.values)

    def exchange(self, one: int, other: int, width: int) -> None:
        """Exchanges the first `width` tokens of two rows."""
        for buffer in (self.keys, self.values):
            of_one = buffer[one, :, :width].clone()
            buffer[one, :, :width] = buffer[other, :, :width]
            buffer[other, :, :width] = of_one

    def copy(self, source: int, row: int, count: int) -> None:
        """Copies the first `count` tokens of one row to another."""
        for buffer in (self.keys, self.values):
            buffer[row, :, :count] = buffer[source, :, :count]

    def retain_rows(self, row: int, start: int, tokens: Int[Tensor, "retained"]) -> None:
        """Moves some tokens of a row to the positions from `start` on."""
        for buffer in (self.keys[row], self.values[row]):
            buffer[:, start : start + len(tokens)] = buffer.index_select(1, tokens)


@final
class RowLayer(BufferLayer):
    """A single row of a layer, as a cache of one text, to which tokens are appended.

    known: how many tokens the text has already.
    """

    keys: Any
    values: Any

    def __init__(self, layer: RaggedLayer, row: int, known: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._layer, self._row = layer, row
        self.is_initialized: bool = layer.is_initialized and known > 0
        if self.is_initialized:
            self._show(known)

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        count = key_states.shape[2]
        for buffer, new in zip(
            self.extend(key_states, value_states), (key_states, value_states), strict=True
        ):
            end = self.keys.shape[2]
            buffer[:, :, end - count : end] = new
        return self.keys, self.values

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        known = self.keys.shape[2] if self.is_initialized else 0
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self._layer.reserve(known + keys.shape[2], keys, values)
        self._show(known + keys.shape[2])
        row = slice(self._row, self._row + 1)
        return self._layer.keys[row], self._layer.values[row]

    def _show(self, count: int) -> None:
        row = slice(self._row, self._row + 1)
        self.keys, self.values = (
            self._layer.keys[row, :, :count],
            self._layer.values[row, :, :count],
        )
