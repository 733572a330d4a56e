"""The rows of a batch's cache: which sequence each holds, and how many tokens of it."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, final

from transformers.cache_utils import Cache

from outrider.contract.draft import Draft
from outrider.targets.batches.batch_cache import NewTokens
from outrider.targets.batches.ragged_layer import RaggedLayer, RowLayer, Slots


@final
class BatchRows:
    """A cache with a row for each sequence, which others may take over when it has ended.

    capacity: how many tokens of each row to make room for at first.
    lengths: the length of each row, in tokens.
    numbers: the number of the sequence in each row.
    slots: where the layers write the tokens of the next pass.
    """

    def __init__(self, rows: int, capacity: int) -> None:
        self.lengths: list[int] = [0] * rows
        self.numbers: list[int] = list(range(rows))
        self.slots: Slots = Slots(rows, capacity)
        self._next = rows
        self._layer = partial(RaggedLayer, self.slots)
        self.cache: Cache = Cache(layer_class_to_replicate=self._layer)  # type: ignore[arg-type]

    @property
    def layers(self) -> list[Any]:
        """Returns the layers of the cache."""
        return self.cache.layers

    def row(self, number: int) -> int:
        """Returns the row of a sequence."""
        return self.numbers.index(number)

    def free(self, active: Collection[int]) -> int | None:
        """Returns the first row whose sequence has ended, if any has."""
        ended = (row for row, number in enumerate(self.numbers) if number not in active)
        return next(ended, None)

    def add(self) -> int:
        """Adds a row, and returns it."""
        self.slots.rows += 1
        self.numbers.append(-1)
        self.lengths.append(0)
        for layer in self.layers:
            layer.add_row()
        return len(self.numbers) - 1

    def begin(self, row: int) -> int:
        """Gives a row to a new sequence, and returns its number."""
        self.numbers[row], self.lengths[row] = self._next, 0
        self._next += 1
        return self.numbers[row]

    def append(
        self, numbers: Sequence[int], pending: Sequence[Sequence[int]], drafts: Sequence[Draft]
    ) -> list[NewTokens]:
        """Counts pending tokens and a draft to each sequence, and returns what a pass reads."""
        rows = [self.row(number) for number in numbers]
        new = [
            NewTokens(row, tokens, draft, self.lengths[row])
            for row, tokens, draft in zip(rows, pending, drafts, strict=True)
        ]
        for part in new:
            self.lengths[part.row] += len(part)
        return new

    def alone(self, row: int) -> Cache:
        """Returns a cache of one sequence, which is a row of this one."""
        known = self.lengths[row]

        def next_layer() -> RowLayer:  # in the first pass of all, the layers are made one by one
            if len(own.layers) == len(self.layers):
                self.layers.append(self._layer())
            return RowLayer(self.layers[len(own.layers)], row, known)

        own = Cache(layer_class_to_replicate=next_layer)  # type: ignore[arg-type]
        while len(own.layers) < len(self.layers):
            own.layers.append(next_layer())
        return own

    def copy(self, source: int, row: int, count: int) -> None:
        """Copies the first `count` tokens of one row to another."""
        for layer in self.layers:
            layer.copy(source, row, count)

    def exchange(self, one: int, other: int) -> None:
        """Exchanges the sequences of two rows."""
        width = max(self.lengths[one], self.lengths[other])
        for layer in self.layers:
            layer.exchange(one, other, width)
        for values in (self.numbers, self.lengths):
            values[one], values[other] = values[other], values[one]

    def retain(self, number: int, count: int, rows: Sequence[int]) -> None:
        """Of a sequence's last `count` tokens, keeps those at `rows`, in that order."""
        row = self.row(number)
        start = self.lengths[row] - count
        if list(rows) != list(range(len(rows))):
            for layer in self.layers:
                layer.retain_rows(row, start, [start + node for node in rows])
        self.lengths[row] = start + len(rows)
