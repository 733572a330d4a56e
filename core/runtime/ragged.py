"""Ragged: one cache for texts of different lengths, each with an end of its own to roll back."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from outrider.contract.draft import Draft
from outrider.runtime.cache import growing
from outrider.runtime.step import Pass, run_pass

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FIRST = 256
"""Tokens a text that the cache has room for from the start."""

FULL = 0.8
"""Ended texts are taken out once no more than this share of the rows goes on."""


UNEVEN = 0.75
"""Texts are attended to one by one once they fill no more than this share of the cache's width."""


@final
class _Slots:
    """Where the tokens of a pass go: `places` [texts, tokens], all below `width`."""

    places: Tensor
    width: int = 0


@final
class _RaggedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values, written wherever the slots say."""

    keys: Any  # there once `update` was called
    values: Any
    slots: _Slots

    def write(self, row: int, rows: int, keys: Tensor, values: Tensor) -> None:
        """Puts a text's first keys and values [heads, tokens, dim] into its row, one of `rows`."""
        if not self.is_initialized:
            self.lazy_initialization(keys[None], values[None])
            self.keys, self.values = (
                _room(each.expand(rows, *each.shape), max(FIRST, 2 * each.shape[1]))
                for each in (keys, values)
            )
        count = keys.shape[1]
        if count > self.keys.shape[-2]:
            self.keys, self.values = (_widened(each, count) for each in (self.keys, self.values))
        self.keys[row, :, :count], self.values[row, :, :count] = keys, values

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = (_room(each, FIRST) for each in (key_states, value_states))
        width = self.slots.width
        if width > self.keys.shape[-2]:
            self.keys, self.values = (_widened(each, width) for each in (self.keys, self.values))
        texts = torch.arange(len(key_states), device=key_states.device)[:, None]
        for room, new in ((self.keys, key_states), (self.values, value_states)):
            room.transpose(1, 2)[texts, self.slots.places] = new.transpose(1, 2)
        return self.keys[:, :, :width], self.values[:, :, :width]


@final
class Ragged:
    """Scores drafts of several texts in one pass; a text's row is its number until it leaves.

    lengths: of each row, in tokens.
    """

    def __init__(self, model: "PreTrainedModel", texts: int) -> None:
        self.model = model
        self.lengths = [0] * texts
        self.slots = _Slots()
        self.cache = Cache(layer_class_to_replicate=self._layer)  # type: ignore[arg-type]
        self.numbers = list(range(texts))

    def _layer(self) -> _RaggedLayer:
        make: Any = _RaggedLayer
        layer: _RaggedLayer = make()
        layer.slots = self.slots
        return layer

    def row(self, number: int) -> int:
        """Returns the row of a text."""
        return self.numbers.index(number)

    def read(
        self, number: int, tokens: Sequence[int], states: Collection[int]
    ) -> dict[int, Float[Tensor, "tokens width"]]:
        """Reads the beginning of a text by itself, so that a long one pads no other.

        Returns:
            The states asked for, by place.
        """
        own = growing()
        ids = torch.tensor([list(tokens)], device=self.model.device)
        found = run_pass(self.model, ids, own, rows=1, states=states)
        layers: Any = own.layers
        rooms: Any = self.cache.layers
        for place, layer in enumerate(layers):
            if place == len(rooms):
                rooms.append(self._layer())
            rooms[place].write(self.row(number), len(self.numbers), layer.keys[0], layer.values[0])
        self.lengths[self.row(number)] = len(tokens)
        return {place: found.states[place][0] for place in states}

    def feed(
        self,
        numbers: Sequence[int],
        pending: Sequence[Sequence[int]],
        drafts: Sequence[Draft],
        states: Collection[int],
    ) -> Pass:
        """Appends each text's pending tokens and draft, and returns what is said of them.

        Rows are aligned at their ends, so the last len(draft) + 1 of a text's logits are its own.
        """
        self._leave(numbers)
        given = {number: (pending[at], drafts[at]) for at, number in enumerate(numbers)}
        # What has ended and is still there is fed anything, which nobody looks at.
        fed = [given.get(number, ([0], Draft())) for number in self.numbers]
        tokens = [[*before, *draft.tokens] for before, draft in fed]
        count = max(map(len, tokens))
        width = max(self.lengths) + count
        ids = torch.zeros(len(tokens), count, dtype=torch.long)
        places = torch.zeros_like(ids)
        depths = torch.zeros_like(ids)
        seen = torch.zeros(len(tokens), count, width, dtype=torch.bool)
        for row, ((before, draft), own) in enumerate(zip(fed, tokens, strict=True)):
            start, known = count - len(own), self.lengths[row]
            ids[row, start:] = torch.tensor(own)
            # What pads a row lies behind its end, where nobody looks and the next pass writes.
            places[row] = (torch.arange(count) - start) % count + known
            reach, depth = _reach(draft, len(before))
            depths[row, start:] = depth + known
            seen[row, :, :known] = True
            seen[row, start:, known : known + len(own)] = reach
            seen[row, :start] = True  # of padding whatever, so that no row sees nothing
        self.slots.places, self.slots.width = places.to(self.model.device), width
        low = torch.finfo(self.model.dtype).min
        mask = torch.zeros(seen.shape, dtype=self.model.dtype).masked_fill(~seen, low)[:, None]
        rows = max(len(draft) for draft in drafts) + 1
        ends = [known + len(own) for known, own in zip(self.lengths, tokens, strict=True)]
        device = self.model.device
        found = run_pass(
            self.model,
            ids.to(device),
            self.cache,
            rows=rows,
            mask=mask.to(device),
            positions=depths.to(device),
            states=states,
            widths=ends if sum(ends) < UNEVEN * len(ends) * width else None,
        )
        for row, number in enumerate(self.numbers):
            self.lengths[row] += len(tokens[row]) if number in given else 0
        back = torch.tensor([self.row(number) for number in numbers], device=device)
        states_of = {place: found.states[place][back] for place in states}
        return Pass(found.logits[back], states_of)

    def retain_rows(self, number: int, count: int, rows: Sequence[int]) -> None:
        """Of a text's last `count` tokens, keeps those at `rows`, in that order."""
        row = self.row(number)
        start = self.lengths[row] - count
        if list(rows) != list(range(len(rows))):
            layers: Any = self.cache.layers
            for layer in layers:
                for room in (layer.keys[row], layer.values[row]):
                    room[:, start : start + len(rows)] = room[:, [start + each for each in rows]]
        self.lengths[row] = start + len(rows)

    def _leave(self, going: Sequence[int]) -> None:
        """Takes texts out that have ended, once they are many."""
        rows = [row for row, number in enumerate(self.numbers) if number in set(going)]
        if len(rows) <= FULL * len(self.numbers):
            chosen = torch.tensor(rows, device=self.model.device)
            layers: Any = self.cache.layers
            for layer in layers:
                layer.keys, layer.values = layer.keys[chosen], layer.values[chosen]
            self.numbers = [self.numbers[row] for row in rows]
            self.lengths = [self.lengths[row] for row in rows]


def _reach(draft: Draft, before: int) -> tuple[Tensor, Int[Tensor, "tokens"]]:
    """Returns which of a text's new tokens each sees, and how deep it lies.

    before: tokens of the text itself ahead of the draft.
    """
    count = before + len(draft)
    reach = torch.ones(count, count, dtype=torch.bool).tril()
    depth = torch.arange(count)
    if not draft.is_chain:
        reach[before:, before:] = False
        for node in range(len(draft)):
            path = draft.path(node)
            depth[before + node] = before - 1 + len(path)
            reach[before + node, [before + each for each in path]] = True
    return reach, depth


def _room(like: Tensor, length: int) -> Float[Tensor, "texts heads length dim"]:
    return like.new_zeros((*like.shape[:-2], length, like.shape[-1]))


def _widened(room: Tensor, width: int) -> Float[Tensor, "texts heads wider dim"]:
    wider = _room(room, max(width, 2 * room.shape[-2]))
    wider[..., : room.shape[-2], :] = room
    return wider
