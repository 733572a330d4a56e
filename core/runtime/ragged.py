"""Ragged: one cache for texts of different lengths, which are rolled back independently."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.cache_utils import Cache

from outrider.contract.draft import Draft
from outrider.runtime.passes import Pass, PassInput
from outrider.runtime.ragged_layer import RaggedLayer, RowLayer, Slots
from outrider.runtime.step import run_pass
from outrider.runtime.tree_mask import additive_mask, tree_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

UNEVEN = 0.75
"""Attention runs text by text once the texts fill less than this share of the cache's width."""


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
class Ragged:
    """Scores drafts of several texts in one pass; each text has a number and a row of the cache.

    The texts of a pass are in the first rows, so texts move to other rows as others end.

    room: how many tokens to make room for at first, such as those of the longest prompt.
    lengths: the length of each row, in tokens.
    numbers: the number of the text in each row.
    """

    def __init__(self, model: "PreTrainedModel", texts: int, room: int = 0) -> None:
        self.model = model
        self.lengths: list[int] = [0] * texts
        self.numbers: list[int] = list(range(texts))
        self._slots = Slots(texts, room)
        self._next = texts
        self._layer = partial(RaggedLayer, self._slots)
        self.cache: Cache = Cache(layer_class_to_replicate=self._layer)  # type: ignore[arg-type]

    @property
    def _layers(self) -> list[Any]:
        return self.cache.layers

    def row(self, number: int) -> int:
        """Returns the row of a text."""
        return self.numbers.index(number)

    def join(self, active: Collection[int]) -> int:
        """Returns the number of a new text, which gets the row of one that has ended, if any has.

        active: the numbers of the texts that have not ended.
        """
        free = [row for row, number in enumerate(self.numbers) if number not in active]
        if not free:
            free = [len(self.numbers)]
            self._slots.rows += 1
            self.numbers.append(-1)
            self.lengths.append(0)
            for layer in self._layers:
                layer.add_row()
        self.numbers[free[0]], self.lengths[free[0]] = self._next, 0
        self._next += 1
        return self.numbers[free[0]]

    def read(
        self, number: int, tokens: Sequence[int], states: Collection[int]
    ) -> dict[int, Float[Tensor, "tokens width"]]:
        """Reads tokens of a text in a separate pass, so that they pad no other text.

        Returns:
            The requested states, by number.
        """
        row = self.row(number)
        own = self._row_cache(row)
        ids = torch.tensor([list(tokens)], device=self.model.device)
        result = run_pass(self.model, own, PassInput(ids, 1, states=states))
        self.lengths[row] += len(tokens)
        return {state: result.states[state][0] for state in states}

    def _row_cache(self, row: int) -> Cache:
        """Returns a cache of one text, which is a row of this one."""
        known = self.lengths[row]

        def next_layer() -> RowLayer:  # in the first pass of all, the layers are made one by one
            if len(own.layers) == len(self._layers):
                self._layers.append(self._layer())
            return RowLayer(self._layers[len(own.layers)], row, known)

        own = Cache(layer_class_to_replicate=next_layer)  # type: ignore[arg-type]
        while len(own.layers) < len(self._layers):
            own.layers.append(next_layer())
        return own

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
        self._move_to_front(numbers)
        by_number = dict(zip(numbers, zip(pending, drafts, strict=True), strict=True))
        fed = [
            _Fed(*by_number[number], known)
            for number, known in zip(self.numbers[: len(numbers)], self.lengths, strict=False)
        ]
        result = run_pass(self.model, self.cache, self._aligned(fed, states))
        for row, text in enumerate(fed):
            self.lengths[row] += len(text)
        rows = torch.tensor([self.row(number) for number in numbers], device=self.model.device)
        return Pass(result.logits[rows], {state: result.states[state][rows] for state in states})

    def _move_to_front(self, numbers: Collection[int]) -> None:
        """Moves texts to the first rows, in exchange for the texts there."""
        count = len(numbers)
        late = [row for row in range(count, len(self.numbers)) if self.numbers[row] in numbers]
        free = [row for row in range(count) if self.numbers[row] not in numbers]
        for here, there in zip(free, late, strict=True):
            width = max(self.lengths[here], self.lengths[there])
            for layer in self._layers:
                layer.exchange(here, there, width)
            for values in (self.numbers, self.lengths):
                values[here], values[there] = values[there], values[here]

    def _aligned(self, fed: Sequence[_Fed], states: Collection[int]) -> PassInput:
        """Returns the input of a pass over some texts, and sets the slots that it writes to."""
        model = self.model
        count, ends = max(map(len, fed)), [text.known + len(text) for text in fed]
        width = max(text.known for text in fed) + count
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
        rows = max(len(text.draft) for text in fed) + 1
        return PassInput(ids, rows, mask, positions, states, widths).to(model.device)

    def retain_rows(self, number: int, count: int, rows: Sequence[int]) -> None:
        """Of a text's last `count` tokens, keeps those at `rows`, in that order."""
        row = self.row(number)
        start = self.lengths[row] - count
        if list(rows) != list(range(len(rows))):
            for layer in self._layers:
                layer.retain_rows(row, start, [start + node for node in rows])
        self.lengths[row] = start + len(rows)
