"""Rows: states of a text's tokens, in room that doubles."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

FIRST = 256


@final
class Rows:
    """Rows that are appended, dropped from the end and moved, without a copy of the others."""

    def __init__(self) -> None:
        self._room: Tensor | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def all(self) -> Float[Tensor, "count width"]:
        """Returns the rows, a view that later calls may change."""
        assert self._room is not None
        return self._room[: self._count]

    def extend(self, new: Float[Tensor, "new width"]) -> None:
        """Appends rows."""
        end = self._count + len(new)
        if self._room is None or end > len(self._room):
            room = new.new_empty(max(FIRST, 2 * end), new.shape[-1])
            if self._room is not None:
                room[: self._count] = self.all()
            self._room = room
        self._room[self._count : end] = new
        self._count = end

    def crop(self, count: int) -> None:
        """Keeps the first `count` rows."""
        self._count = min(self._count, count)

    def retain_rows(self, start: int, rows: Sequence[int]) -> None:
        """Of the rows from `start` on, keeps those at `rows`, in that order."""
        if self._room is None:
            return
        kept = torch.tensor(rows, dtype=torch.long, device=self._room.device) + start
        self._room[start : start + len(rows)] = self._room[kept]
        self._count = start + len(rows)
