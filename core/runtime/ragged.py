"""Ragged: one cache for texts of different lengths, which are rolled back independently."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.cache_utils import Cache

from outrider.contract.draft import Draft
from outrider.runtime.flat import takes_places
from outrider.runtime.passes import PART, Pass, PassInput
from outrider.runtime.ragged_layer import RaggedLayer, RowLayer, Slots
from outrider.runtime.step import run_pass
from outrider.runtime.tree_mask import additive_mask, tree_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

UNEVEN = 0.75
"""Attention runs text by text once the texts fill less than this share of the cache's width."""

SHARED = 8
"""The fewest tokens that are copied from another text's prompt; reading fewer takes no longer."""


@final
@dataclass(frozen=True, slots=True)
class _Fed:
    """The tokens of one row in a pass: pending ones and a draft, after `known` cached ones."""

    row: int
    pending: Sequence[int]
    draft: Draft
    known: int

    @property
    def tokens(self) -> list[int]:
        """Returns the tokens of the pass."""
        return [*self.pending, *self.draft.tokens]

    def __len__(self) -> int:
        return len(self.pending) + len(self.draft)


@final
class Ragged:
    """Scores drafts of several texts in one pass; each text has a number and a row of the cache.

    Where a pass takes tokens of several texts side by side, parts of prompts wait for the next
    pass, and what two prompts begin with is read once. Otherwise the texts of a pass are in the
    first rows, so texts move to other rows as others end.

    room: how many tokens to make room for at first, such as those of the longest prompt.
    lengths: the length of each row, in tokens.
    numbers: the number of the text in each row.
    """

    def __init__(self, model: "PreTrainedModel", texts: int, room: int = 0) -> None:
        self.model = model
        self.lengths: list[int] = [0] * texts
        self.numbers: list[int] = list(range(texts))
        self._prompts: list[list[int]] = [[] for _ in range(texts)]  # what was read of each row's
        self._waiting: list[_Fed] = []  # parts of prompts, which count as read
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
            self._prompts.append([])
            for layer in self._layers:
                layer.add_row()
        self.numbers[free[0]], self.lengths[free[0]] = self._next, 0
        self._prompts[free[0]] = []
        self._next += 1
        return self.numbers[free[0]]

    def read(
        self, number: int, tokens: Sequence[int], states: Collection[int]
    ) -> dict[int, Float[Tensor, "tokens width"]]:
        """Reads a part of a prompt: in a separate pass, or at the latest with the next draft.

        Returns:
            The requested states, by number.
        """
        row = self.row(number)
        if not states and takes_places(self.model):
            shared = self._share(row, tokens)
            self._prompts[row] += tokens
            if shared < len(tokens):
                self._waiting.append(_Fed(row, tokens[shared:], Draft(), self.lengths[row]))
                self.lengths[row] += len(tokens) - shared
            if sum(map(len, self._waiting)) >= PART:
                self._read_waiting()
            return {}
        own = self._row_cache(row)
        ids = torch.tensor([list(tokens)], device=self.model.device)
        result = run_pass(self.model, own, PassInput(ids, 1, states=states))
        self.lengths[row] += len(tokens)
        return {state: result.states[state][0] for state in states}

    def _share(self, row: int, tokens: Sequence[int]) -> int:
        """Copies the first tokens of a part from a row that has them, and returns how many."""
        known = self._prompts[row]
        wanted = [*known, *tokens]
        counts = [
            _common(wanted, other) if other_row != row else 0
            for other_row, other in enumerate(self._prompts)
        ]
        source = counts.index(max(counts))
        count = counts[source] - len(known)
        if count < SHARED:
            return 0
        if any(part.row == source for part in self._waiting):
            self._read_waiting()
        for layer in self._layers:
            layer.copy(source, row, len(known), counts[source])
        self.lengths[row] += count
        return count

    def _read_waiting(self) -> None:
        """Reads the parts of prompts that wait, in a separate pass."""
        waiting, self._waiting = self._waiting, []
        run_pass(self.model, self.cache, self._side_by_side(waiting, 0, ()))

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
    ) -> list[Pass]:
        """Appends each text's pending tokens and draft, and returns the passes of each text.

        They hold the states of these tokens, and the logits of the last len(draft) + 1.
        """
        is_aligned = not takes_places(self.model)
        if is_aligned:
            self._move_to_front(numbers)
        rows = [self.row(number) for number in numbers]
        fed = [
            _Fed(row, tokens, draft, self.lengths[row])
            for row, tokens, draft in zip(rows, pending, drafts, strict=True)
        ]
        for text in fed:
            self.lengths[text.row] += len(text)
        if is_aligned:
            inputs = self._aligned(sorted(fed, key=lambda text: text.row), states)
            result = run_pass(self.model, self.cache, inputs)
            return [_part(result, inputs, text.row, text, inputs.ids.shape[1]) for text in fed]
        waiting, self._waiting = self._waiting, []
        inputs = self._side_by_side([*waiting, *fed], sum(map(len, fed)), states)
        result = run_pass(self.model, self.cache, inputs)
        ends = accumulate(map(len, fed), initial=sum(map(len, waiting)))
        return [
            _part(result, inputs, 0, text, end + len(text))
            for text, end in zip(fed, ends, strict=False)
        ]

    def _move_to_front(self, numbers: Collection[int]) -> None:
        """Moves texts to the first rows, in exchange for the texts there."""
        count = len(numbers)
        late = [row for row in range(count, len(self.numbers)) if self.numbers[row] in numbers]
        free = [row for row in range(count) if self.numbers[row] not in numbers]
        for here, there in zip(free, late, strict=True):
            width = max(self.lengths[here], self.lengths[there])
            for layer in self._layers:
                layer.exchange(here, there, width)
            rows: Any
            for rows in (self.numbers, self.lengths, self._prompts):
                rows[here], rows[there] = rows[there], rows[here]

    def _side_by_side(self, fed: Sequence[_Fed], rows: int, states: Collection[int]) -> PassInput:
        """Returns the input of a pass over the tokens of some texts, one text after the other.

        rows: how many of the last tokens to return logits for.
        """
        total, width = sum(map(len, fed)), max(text.known + len(text) for text in fed)
        owners = [text.row for text in fed for _ in range(len(text))]
        slots = [text.known + index for text in fed for index in range(len(text))]
        ids = torch.tensor([[token for text in fed for token in text.tokens]])
        places = torch.tensor([owners, slots])
        self._slots.width = width
        if all(text.draft.is_chain for text in fed):
            return PassInput(ids, rows, None, places[1:], states, places=places)
        sees = torch.zeros(total, width, dtype=torch.bool)
        positions = torch.empty_like(ids)
        start = 0
        for text in fed:
            end, last = start + len(text), text.known + len(text)
            tree = tree_mask(text.draft.parents, pending=len(text.pending), cached=text.known)
            positions[0, start:end] = tree.positions
            sees[start:end, :last] = tree.sees
            start = end
        mask = additive_mask(sees, torch.float32)[None, None]
        return PassInput(ids, rows, mask, positions, states, places=places)

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
            ids[row, start:] = torch.tensor(text.tokens)
            positions[row, start:] = tree.positions
            sees[row, start:] = False
            sees[row, start:, : ends[row]] = tree.sees
            # Padding goes after the text's end, where it is never seen and soon overwritten.
            slots[row] = (torch.arange(count) - start) % count + text.known
        self._write_to(torch.arange(len(fed))[:, None], slots, len(fed), width)
        mask = additive_mask(sees, model.dtype)[:, None]
        widths = ends if sum(ends) < UNEVEN * len(ends) * width else None
        rows = max(len(text.draft) for text in fed) + 1
        return PassInput(ids, rows, mask, positions, states, widths).to(model.device)

    def _write_to(self, texts: Tensor, positions: Tensor, count: int, width: int) -> None:
        """Sets the slots that the next pass writes to."""
        slots, device = self._slots, self.model.device
        slots.texts, slots.positions = texts.to(device), positions.to(device)
        slots.count, slots.width = count, width

    def retain_rows(self, number: int, count: int, rows: Sequence[int]) -> None:
        """Of a text's last `count` tokens, keeps those at `rows`, in that order."""
        row = self.row(number)
        start = self.lengths[row] - count
        if list(rows) != list(range(len(rows))):
            for layer in self._layers:
                layer.retain_rows(row, start, [start + node for node in rows])
        self.lengths[row] = start + len(rows)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Returns how many tokens two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _part(result: Pass, inputs: PassInput, row: int, text: _Fed, end: int) -> Pass:
    """Returns the part of a pass that is about one text, whose tokens are in `row` before `end`."""
    batch = slice(row, row + 1)
    logits_end = end - (inputs.ids.shape[1] - inputs.rows)  # only the last rows have logits
    logits = result.logits[batch, logits_end - len(text.draft) - 1 : logits_end]
    states = {number: rows[batch, end - len(text) : end] for number, rows in result.states.items()}
    return Pass(logits, states)
