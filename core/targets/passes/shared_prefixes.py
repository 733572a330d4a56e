"""Origins: which texts of a cache begin with tokens that another text's row holds."""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor


@final
class Origins:
    """For each row of a cache, the row that holds its first tokens, and how many it holds.

    A row that holds all of its own tokens has a count of 0. A row that another one is the origin of
    holds the tokens itself, so there are no chains of origins.
    """

    def __init__(self, rows: int) -> None:
        self._rows: list[int] = list(range(rows))
        self._counts: list[int] = [0] * rows

    def add_row(self) -> None:
        """Adds a row, which holds its own tokens."""
        self._rows.append(len(self._rows))
        self._counts.append(0)

    def share(self, row: int, source: int, count: int) -> tuple[int, int] | None:
        """Has a row begin with the first `count` tokens of another one.

        Returns:
            The origin of `source` and the number of tokens that `source` has to copy from it, if
            it shares fewer than `count` itself and so becomes the row's origin.
        """
        if self._counts[source] >= count:
            self._rows[row], self._counts[row] = self._rows[source], count
            return None
        self._rows[row], self._counts[row] = source, count
        return self.leave(source)

    def leave(self, row: int) -> tuple[int, int] | None:
        """Ends what a row shares with its origin: it is to hold all of its tokens.

        Returns:
            The origin and the number of tokens to copy from it, if there are any.
        """
        count, self._counts[row] = self._counts[row], 0
        return (self._rows[row], count) if count else None

    def free(self, row: int) -> tuple[int, int] | None:
        """Prepares a row for another text. One of those that it is the origin of takes its place.

        Returns:
            The row that takes its place, and the number of tokens to copy there, if there are any.
        """
        self._counts[row] = 0
        sharing = [other for other, count in enumerate(self._counts) if count]
        heirs = [heir for heir in sharing if self._rows[heir] == row]
        if not heirs:
            return None
        first = max(heirs, key=self._counts.__getitem__)
        count, self._counts[first] = self._counts[first], 0
        for heir in heirs:
            self._rows[heir] = first
        return first, count

    def table(self) -> Int[Tensor, "2 rows"] | None:
        """Returns the origins and counts of all rows, or None if all hold their own tokens."""
        return torch.tensor([self._rows, self._counts]) if any(self._counts) else None
