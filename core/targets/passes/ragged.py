"""Ragged: one cache for texts of different lengths, which are rolled back independently."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from transformers.cache_utils import Cache

from outrider.contract.draft import Draft
from outrider.extras.cpu.fused_decoder import takes_places
from outrider.targets.passes.batch_input import Fed, aligned, part_of, side_by_side
from outrider.targets.passes.pass_input import PART, Pass, PassInput
from outrider.targets.passes.ragged_layer import RaggedLayer, RowLayer, Slots
from outrider.targets.passes.run_pass import run_pass
from outrider.targets.passes.shared_prefixes import Origins

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SHARED = 8
"""The fewest tokens that a prompt shares with another text's; reading fewer takes no longer."""


@final
class Ragged:
    """Scores drafts of several texts in one pass; each text has a number and a row of the cache.

    Where a pass takes tokens of several texts side by side, parts of prompts wait for the next
    pass, and what two prompts begin with is read and kept once. Otherwise the texts of a pass are
    in the first rows, so texts move to other rows as others end.

    room: how many tokens to make room for at first, such as those of the longest prompt.
    lengths: the length of each row, in tokens.
    numbers: the number of the text in each row.
    """

    def __init__(self, model: "PreTrainedModel", texts: int, room: int = 0) -> None:
        self.model = model
        self.lengths: list[int] = [0] * texts
        self.numbers: list[int] = list(range(texts))
        self._prompts: list[list[int]] = [[] for _ in range(texts)]  # what was read of each row's
        self._waiting: list[Fed] = []  # parts of prompts, which count as read
        self._origins = Origins(texts)
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
            self._origins.add_row()
            for layer in self._layers:
                layer.add_row()
        if heir := self._origins.free(free[0]):
            self._copy(free[0], heir[0], heir[1])
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
                self._waiting.append(Fed(row, tokens[shared:], Draft(), self.lengths[row]))
                self.lengths[row] += len(tokens) - shared
            if sum(map(len, self._waiting)) >= PART:
                self._read_waiting()
            return {}
        if origin := self._origins.leave(row):
            self._copy(origin[0], row, origin[1])
        own = self._row_cache(row)
        ids = torch.tensor([list(tokens)], device=self.model.device)
        result = run_pass(self.model, own, PassInput(ids, 1, states=states))
        self.lengths[row] += len(tokens)
        return {state: result.states[state][0] for state in states}

    def _share(self, row: int, tokens: Sequence[int]) -> int:
        """Takes the first tokens of a part from a row that has them, and returns how many."""
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
        if origin := self._origins.share(row, source, counts[source]):
            self._copy(origin[0], source, origin[1])
        self.lengths[row] += count
        return count

    def _copy(self, source: int, row: int, count: int) -> None:
        for layer in self._layers:
            layer.copy(source, row, count)

    def _read_waiting(self) -> None:
        """Reads the parts of prompts that wait, in a separate pass."""
        waiting, self._waiting = self._waiting, []
        run_pass(self.model, self.cache, self._side_by_side(waiting, 0, ()))

    def _side_by_side(self, fed: Sequence[Fed], rows: int, states: Collection[int]) -> PassInput:
        """Returns the input of a pass, for which the layers make room."""
        self._slots.width = max(text.known + len(text) for text in fed)
        inputs = side_by_side(fed, rows, states, self._slots.width)
        return replace(inputs, origins=self._origins.table())

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
            Fed(row, tokens, draft, self.lengths[row])
            for row, tokens, draft in zip(rows, pending, drafts, strict=True)
        ]
        for text in fed:
            self.lengths[text.row] += len(text)
        if is_aligned:
            inputs, places = aligned(self.model, sorted(fed, key=lambda text: text.row), states)
            self._slots.write_to(*places)
            result = run_pass(self.model, self.cache, inputs)
            return [part_of(result, inputs, text, inputs.ids.shape[1]) for text in fed]
        waiting, self._waiting = self._waiting, []
        inputs = self._side_by_side([*waiting, *fed], sum(map(len, fed)), states)
        result = run_pass(self.model, self.cache, inputs)
        ends = accumulate(map(len, fed), initial=sum(map(len, waiting)))
        return [
            part_of(result, inputs, text, end + len(text))
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
