"""Shared prefixes: rows of a cache that begin with tokens which another row owns."""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor


@final
class SharedPrefixes:
    """For each row of a cache, the row that owns its first tokens, and how many of them.

    A row that owns all of its tokens has a count of 0. A row whose prefix others share owns its
    tokens, so there are no chains of owners.
    """

    def __init__(self, rows: int) -> None:
        self._owners: list[int] = list(range(rows))
        self._counts: list[int] = [0] * rows

    def add_row(self) -> None:
        """Adds a row, which owns its tokens."""
        self._owners.append(len(self._owners))
        self._counts.append(0)

    def share(self, row: int, source: int, count: int) -> tuple[int, int] | None:
        """Has a row begin with the first `count` tokens of another one.

        Returns:
            The owner of `source`'s prefix and the number of tokens that `source` has to copy from
            it, if it shares fewer than `count` itself and so becomes the row's owner.
        """
        if self._counts[source] >= count:
            self._owners[row], self._counts[row] = self._owners[source], count
            return None
        self._owners[row], self._counts[row] = source, count
        return self.leave(source)

    def leave(self, row: int) -> tuple[int, int] | None:
        """Has a row own all of its tokens.

        Returns:
            The owner so far and the number of tokens to copy from it, if there are any.
        """
        count, self._counts[row] = self._counts[row], 0
        return (self._owners[row], count) if count else None

    def free(self, row: int) -> tuple[int, int] | None:
        """Prepares a row for another sequence. If others share its prefix, one becomes the owner.

        Returns:
            The new owner, and the number of tokens to copy there, if there are any.
        """
        self._counts[row] = 0
        sharing = [other for other, count in enumerate(self._counts) if count]
        heirs = [heir for heir in sharing if self._owners[heir] == row]
        if not heirs:
            return None
        first = max(heirs, key=self._counts.__getitem__)
        count, self._counts[first] = self._counts[first], 0
        for heir in heirs:
            self._owners[heir] = first
        return first, count

    def table(self) -> Int[Tensor, "2 rows"] | None:
        """Returns the owners and counts of all rows, or None if all own their tokens."""
        return torch.tensor([self._owners, self._counts]) if any(self._counts) else None
