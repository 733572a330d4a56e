"""A batch that transformers' own modules read, padded to one length, and its rows in a cache."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.cache_utils import Cache

from outrider.base.pretrained import Model
from outrider.contract.devices import placed
from outrider.contract.draft import Draft
from outrider.contract.judge import Judge, Judges
from outrider.targets.batches.batch_cache import BatchCache, NewTokens, part_of
from outrider.targets.batches.ragged_layer import RaggedLayer, RowLayer, Slots
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.masks import additive_mask, tree_mask
from outrider.targets.passes.pass_input import Pass, PassInput, run_modules
from outrider.targets.passes.placement import home

Held = tuple[Tensor, list[Tensor], Callable[..., Any]]
"""The ids of what to feed of each row, followed by their slots; the buffers; and what returns the
logits after the last of some tokens of each row, given such ids and slots, and for a tree what each
token sees, and its position."""


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

    def hold(self, width: int) -> list[Any]:
        """Makes room for so many tokens of each row, and returns the whole buffers.

        There are none before the first pass.
        """
        for layer in self.layers:
            layer.reserve(width, layer.keys, layer.values)
        return [buffer for layer in self.layers for buffer in (layer.keys, layer.values)]

    def clear(self) -> None:
        """Forgets all sequences."""
        self.numbers = list(range(len(self.numbers)))
        self.lengths, self._next = [0] * len(self.numbers), len(self.numbers)
        for layer in self.layers:
            layer.clear()

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
            tokens = placed([start + node for node in rows], self.layers[0].device)
            for layer in self.layers:
                layer.retain_rows(row, start, tokens.to(layer.device))
        self.lengths[row] = start + len(rows)


class BatchPasses(ABC):
    """Passes over all rows of a batch, and over whole buffers.

    sizes: the numbers of tokens of each row that they are about.
    """

    sizes: Sequence[int]

    @abstractmethod
    def lend(self, holder: object, rows: int) -> BatchRows:
        """Returns at least so many rows, for as long as their holder lives."""

    @abstractmethod
    def run(self, model: Model, rows: BatchRows, inputs: PassInput) -> Pass:
        """Returns what `run_pass` does, where the rows have been told to write."""


@final
class PaddedBatch(BatchCache):
    """A batch whose passes are about the first rows, so sequences move there as others end.

    capacity: how many tokens to make room for at first, such as those of the longest prompt.
    static: runs passes of a few sizes, after the first, and lends the buffers.
    """

    def __init__(
        self, model: Model, sequences: int, capacity: int = 0, static: BatchPasses | None = None
    ) -> None:
        self.model: Model = model
        self.static: BatchPasses | None = static
        self._rows = static.lend(self, sequences) if static else BatchRows(sequences, capacity)

    def join(self, active: Collection[int]) -> int:
        row = self._rows.free(active)
        return self._rows.begin(self._rows.add() if row is None else row)

    def read(
        self, number: int, tokens: Sequence[int], states: Collection[int]
    ) -> dict[int, Float[Tensor, "tokens width"]]:
        row = self._rows.row(number)
        ids = placed(tokens, home(self.model))[None]
        result = run_pass(self.model, self._rows.alone(row), PassInput(ids, 1, states=states))
        self._rows.lengths[row] += len(tokens)
        return {state: result.states[state][0] for state in states}

    def feed(
        self,
        numbers: Sequence[int],
        pending: Sequence[Sequence[int]],
        drafts: Sequence[Draft],
        states: Collection[int],
        last: Int[Tensor, "texts"] | None = None,
        *,
        judges: Sequence[Judge | None] = (),
    ) -> list[Pass]:
        longest = max(len(one) + len(draft) for one, draft in zip(pending, drafts, strict=True))
        sizes = self.static.sizes if self.static and self._rows.layers else ()
        size = next((size for size in sizes if size >= longest), 0)
        if not size:
            self._move_to_front(numbers)
        new = self._rows.append(numbers, pending, drafts)
        inputs = self._padded(new, states, size)
        of_row = dict(zip((part.row for part in new), judges, strict=False))
        deciding = Judges.of([*map(of_row.get, range(len(inputs.ids)))], inputs.rows)
        if last is not None:
            inputs.ids[placed([part.row for part in new], last.device), -1] = last
        if size and self.static:
            result = self.static.run(self.model, self._rows, replace(inputs, judges=deciding))
        else:
            result = run_pass(self.model, self._rows.cache, inputs)
            if deciding and result.logits.device.type != "cpu":
                given = deciding.given(inputs.rows, result.logits.device)
                found = deciding.run(result.logits, *given)
                result = replace(result, verdicts=deciding.verdicts(found))
        end = inputs.ids.shape[1]
        return [part_of(result, part.row, part, end, end - inputs.rows) for part in new]

    def rows_of(self, numbers: Collection[int]) -> tuple[list[int], int]:
        """Returns the rows of sequences, by number, and how many rows there are."""
        return [self._rows.row(number) for number in numbers], len(self._rows.lengths)

    def hold(self, new: Mapping[int, Sequence[int]], count: int, room: int) -> Held:
        """Appends new tokens of sequences, by number, for a program to feed.

        count: how many positions of each row to feed, at least as many as new tokens.
        room: how many more the buffers have room for.
        """
        rows, device = self._rows, home(self.model)
        if not rows.layers:  # the first pass makes them
            self.read(rows.numbers[0], [0], ())
            rows.lengths[0] = 0
        ids = torch.zeros(len(rows.lengths), count, dtype=torch.long)
        slots = torch.tensor(rows.lengths)[:, None] + torch.arange(count)
        for number, tokens in new.items():
            row, start = rows.row(number), count - len(tokens)
            ids[row, start:] = torch.tensor(tokens)
            slots[row] = slots[row].roll(start)  # padding goes after the sequence's end
            rows.lengths[row] += len(tokens)
        buffers = rows.hold(max(rows.lengths) + count + room)
        width = int(buffers[0].shape[2])

        def run(
            ids: Tensor, slots: Tensor, last: int, sees: Any = None, positions: Any = None
        ) -> Tensor:
            texts = torch.arange(len(ids), device=device)[:, None]
            rows.slots.write_to(texts, slots, len(ids), width)
            if sees is None:
                sees, positions = torch.arange(width, device=device) <= slots[..., None], slots
            mask = additive_mask(sees, self.model.dtype)[:, None]
            return run_modules(self.model, rows.cache, PassInput(ids, last, mask, positions)).logits

        given = placed(torch.cat([ids, slots], dim=1), device)
        return given, buffers, run

    def retain_rows(self, number: int, count: int, rows: Sequence[int]) -> None:
        self._rows.retain(number, count, rows)

    def _move_to_front(self, numbers: Collection[int]) -> None:
        """Moves sequences to the first rows, in exchange for those there."""
        count, known = len(numbers), self._rows.numbers
        late = [row for row in range(count, len(known)) if known[row] in numbers]
        free = [row for row in range(count) if known[row] not in numbers]
        for here, there in zip(free, late, strict=True):
            self._rows.exchange(here, there)

    def _padded(self, new: Sequence[NewTokens], states: Collection[int], size: int) -> PassInput:
        """Returns the input of a pass, and has the layers make room for it.

        new: the tokens of the first rows, or of some if it has a static `size`, which is not 0.
        """
        lengths = self._rows.lengths if size else [0] * len(new)
        count, texts = size or max(map(len, new)), len(lengths)
        width = max(part.cached for part in new) + count
        if size:
            width = int(self._rows.hold(max(lengths) + count)[0].shape[2])
        ids = torch.zeros(texts, count, dtype=torch.long)
        positions = torch.zeros_like(ids)
        slots = torch.tensor(lengths)[:, None] + torch.arange(count)
        # Padding sees everything, so that no token sees nothing.
        sees = torch.ones(texts, count, width, dtype=torch.bool)
        for part in new:
            row, start = part.row, count - len(part)
            tree = tree_mask(part.draft.parents, pending=len(part.pending), cached=part.cached)
            ids[row, start:] = torch.tensor(part.tokens)
            positions[row, start:] = tree.positions
            sees[row, start:] = False
            sees[row, start:, : part.cached + len(part)] = tree.sees
            # Padding goes after the sequence's end, where it is never seen and soon overwritten.
            slots[row] = (torch.arange(count) - start) % count + part.cached
        device = home(self.model)
        rows = torch.arange(texts, device=device)[:, None]
        self._rows.slots.write_to(rows, placed(slots, device), texts, width)
        mask = additive_mask(sees, self.model.dtype)[:, None]
        with_logits = size or max(len(part.draft) for part in new) + 1
        return PassInput(ids, with_logits, mask, positions, states).to(device)
