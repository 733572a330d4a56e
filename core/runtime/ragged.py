"""Ragged: one cache for texts of different lengths, which are rolled back independently."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from outrider.contract.draft import Draft
from outrider.runtime.cache import GrowingCache
from outrider.runtime.growing import GrowingTensor
from outrider.runtime.passes import Pass, PassInput
from outrider.runtime.step import run_pass
from outrider.runtime.tree_mask import additive_mask, tree_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FULL = 0.8
"""Texts that have ended are removed once at most this share of the rows is still in progress."""

UNEVEN = 0.75
"""Attention runs text by text once the texts fill less than this share of the cache's width."""


@final
@dataclass(slots=True)
class _Slots:
    """The cache positions that a pass writes to: `positions` [texts, tokens], all below `width`."""

    positions: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.long))
    width: int = 0


@final
@dataclass(frozen=True, slots=True)
class _Fed:
    """The tokens of one text in a pass: pending ones and a draft, after `known` cached ones."""

    pending: Sequence[int]
    draft: Draft
    known: int

    def __len__(self) -> int:
        return len(self.pending) + len(self.draft)


@final
class _RaggedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values with all of their room, written at the slots."""

    keys: Any  # None before the first update
    values: Any

    def __init__(self, slots: _Slots) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._slots = slots
        # Unwritten room is masked, but still multiplied: it must not be NaN.
        self._grown = (GrowingTensor(zeros=True), GrowingTensor(zeros=True))

    def write(self, row: int, rows: int, keys: Tensor, values: Tensor) -> None:
        """Writes a text's first keys and values [heads, tokens, dim] to its row, one of `rows`."""
        count = keys.shape[1]
        self._reserve(count, keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1))
        self.keys[row, :, :count], self.values[row, :, :count] = keys, values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        width = self._slots.width
        self._reserve(width, key_states, value_states)
        texts = torch.arange(len(key_states), device=key_states.device)[:, None]
        for room, new in ((self.keys, key_states), (self.values, value_states)):
            room.transpose(1, 2)[texts, self._slots.positions] = new.transpose(1, 2)
        return self.keys[:, :, :width], self.values[:, :, :width]

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keeps the texts at `indices`."""
        for grown in self._grown:
            grown.select(indices)
        self._reserve(0, self.keys, self.values)

    def _reserve(self, tokens: int, keys: Tensor, values: Tensor) -> None:
        """Makes room for at least `tokens` tokens, shaped like `keys` and `values`."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        self.keys, self.values = (
            grown.reserve(tokens, like)
            for grown, like in zip(self._grown, (keys, values), strict=True)
        )


@final
class Ragged:
    """Scores drafts of several texts in one pass; each text has a number and a row of the cache.

    lengths: the length of each row, in tokens.
    numbers: the number of the text in each row. Texts that have ended lose their rows, so texts
        can move to other rows.
    """

    def __init__(self, model: "PreTrainedModel", texts: int) -> None:
        self.model = model
        self.lengths: list[int] = [0] * texts
        self.numbers: list[int] = list(range(texts))
        self._slots = _Slots()
        self._layer = partial(_RaggedLayer, self._slots)
        self.cache: Cache = Cache(layer_class_to_replicate=self._layer)  # type: ignore[arg-type]

    def row(self, number: int) -> int:
        """Returns the row of a text."""
        return self.numbers.index(number)

    def read(
        self, number: int, tokens: Sequence[int], states: Collection[int]
    ) -> dict[int, Float[Tensor, "tokens width"]]:
        """Reads the beginning of a text in a separate pass, so that it pads no other text.

        Returns:
            The requested states, by number.
        """
        own = GrowingCache()
        ids = torch.tensor([list(tokens)], device=self.model.device)
        result = run_pass(self.model, own, PassInput(ids, 1, states=states))
        own_layers: Any = own.layers
        layers: Any = self.cache.layers
        for index, layer in enumerate(own_layers):
            if index == len(layers):
                layers.append(self._layer())
            layers[index].write(self.row(number), len(self.numbers), layer.keys[0], layer.values[0])
        self.lengths[self.row(number)] = len(tokens)
        return {state: result.states[state][0] for state in states}

    def feed(
        self,
        numbers: Sequence[int],
        pending: Sequence[Sequence[int]],
        drafts: Sequence[Draft],
        states: Collection[int],
    ) -> Pass:
        """Appends each text's pending tokens and draft, and returns their logits and states.

        Rows are aligned at their ends, so the last len(draft) + 1 logits of a text are its own.
        """
        self._drop_ended(numbers)
        active = {
            number: (before, draft)
            for number, before, draft in zip(numbers, pending, drafts, strict=True)
        }
        # Texts that have ended and still have a row are fed a token, whose logits are ignored.
        fed = [
            _Fed(*active.get(number, ([0], Draft())), known)
            for number, known in zip(self.numbers, self.lengths, strict=True)
        ]
        inputs = self._aligned(fed, max(map(len, drafts)) + 1, states)
        result = run_pass(self.model, self.cache, inputs)
        for row, number in enumerate(self.numbers):
            self.lengths[row] += len(fed[row]) if number in active else 0
        rows = torch.tensor([self.row(number) for number in numbers], device=self.model.device)
        return Pass(result.logits[rows], {state: result.states[state][rows] for state in states})

    def _aligned(self, fed: Sequence[_Fed], rows: int, states: Collection[int]) -> PassInput:
        """Returns the input of a pass over some texts, and sets the slots that it writes to."""
        model = self.model
        count, ends = max(map(len, fed)), [text.known + len(text) for text in fed]
        width = max(self.lengths) + count
        ids = torch.zeros(len(fed), count, dtype=torch.long)
        slots, positions = torch.zeros_like(ids), torch.zeros_like(ids)
        # Padding sees everything, so that no token sees nothing.
        sees = torch.ones(len(fed), count, width, dtype=torch.bool)
        for row, text in enumerate(fed):
            start = count - len(text)
            tree = tree_mask(text.draft.parents, pending=len(text.pending), cached=text.known)
            ids[row, start:] = torch.tensor([*text.pending, *text.draft.tokens])
            positions[row, start:] = tree.positions
            sees[row, start:] = False
            sees[row, start:, : ends[row]] = tree.sees
            # Padding goes after the text's end, where it is never seen and soon overwritten.
            slots[row] = (torch.arange(count) - start) % count + text.known
        self._slots.positions, self._slots.width = slots.to(model.device), width
        mask = additive_mask(sees, model.dtype)[:, None]
        widths = ends if sum(ends) < UNEVEN * len(ends) * width else None
        return PassInput(ids, rows, mask, positions, states, widths).to(model.device)

    def retain_rows(self, number: int, count: int, rows: Sequence[int]) -> None:
        """Of a text's last `count` tokens, keeps those at `rows`, in that order."""
        row = self.row(number)
        start = self.lengths[row] - count
        if list(rows) != list(range(len(rows))):
            layers: Any = self.cache.layers
            positions = [start + node for node in rows]
            for layer in layers:
                for room in (layer.keys[row], layer.values[row]):
                    room[:, start : start + len(rows)] = room[:, positions]
        self.lengths[row] = start + len(rows)

    def _drop_ended(self, active: Sequence[int]) -> None:
        """Removes the texts that have ended, once there are many."""
        rows = [row for row, number in enumerate(self.numbers) if number in set(active)]
        if len(rows) <= FULL * len(self.numbers):
            self.cache.batch_select_indices(torch.tensor(rows, device=self.model.device))
            self.numbers = [self.numbers[row] for row in rows]
            self.lengths = [self.lengths[row] for row in rows]
