"""GrowingCache: keys and values in room that doubles, so that no round copies what is there."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

FIRST = 256
"""Tokens that a cache has room for from the start."""


@final
class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values: the first part of a larger block.

    `keys` and `values` are views; cropping them is all that a rollback takes.
    """

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._rooms = [_room(key_states, FIRST), _room(value_states, FIRST)]
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        views = []
        for place, new in enumerate((key_states, value_states)):
            room = self._rooms[place]
            if end > room.shape[-2]:
                # What is left over keeps the round after a long prompt from copying it.
                self._rooms[place] = _room(new, max(end + FIRST, 2 * room.shape[-2]))
                self._rooms[place][..., :start, :] = room[..., :start, :]
                room = self._rooms[place]
            room[..., start:end, :] = new
            views.append(room[..., :end, :])
        self.keys, self.values = views
        return self.keys, self.values

    def retain_rows(self, start: int, kept: Tensor) -> None:
        """Moves the tokens at `kept` to `start` and what follows, and drops the others."""
        end = start + len(kept)
        self.keys, self.values = (self._moved(room, start, end, kept) for room in self._rooms)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keeps some of the texts."""
        length = self.get_seq_length()
        self._rooms = [room[indices] for room in self._rooms]
        self.keys, self.values = (room[..., :length, :] for room in self._rooms)

    def _moved(self, room: Tensor, start: int, end: int, kept: Tensor) -> Tensor:
        room[..., start:end, :] = room[..., kept, :]
        return room[..., :end, :]


def growing() -> Cache:
    """Returns an empty cache of growing layers."""
    return Cache(layer_class_to_replicate=GrowingLayer)


def retain_rows(cache: Any, count: int, rows: Sequence[int]) -> None:
    """Of the last `count` tokens, keeps those at `rows`, in that order."""
    if not isinstance(cache, Cache):
        cache.retain_rows(count, rows)
        return
    start = int(cache.get_seq_length()) - count
    layers: Any = cache.layers
    kept = torch.tensor(
        [start + row for row in rows], dtype=torch.long, device=layers[0].keys.device
    )
    for layer in layers:
        layer.retain_rows(start, kept)


def _room(like: Tensor, length: int) -> Tensor:
    return like.new_empty((*like.shape[:-2], length, like.shape[-1]))
