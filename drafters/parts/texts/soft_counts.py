"""Sums of the target's distributions after n-grams, of which the likeliest tokens are kept."""

from collections.abc import Iterable, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.bounds import Passes
from outrider.base.errors import is_int, is_number

NGram = tuple[int, ...]
Row = tuple[Sequence[int], int, Sequence[int], Sequence[float]]
"""An n-gram, how many distributions were added, the tokens that are kept, and their sums."""

ROUNDING = 1e-9
"""By how much of it the sums after an n-gram may exceed the number of distributions."""


@final
class SoftCounts:
    """For each n-gram, how many distributions were added, and their sum, token by token."""

    def __init__(self) -> None:
        self._added: dict[NGram, int] = {}
        self._sums: dict[NGram, dict[int, float]] = {}

    def __len__(self) -> int:
        return len(self._added)

    def add(self, context: NGram, tokens: Sequence[int], probs: Sequence[float]) -> None:
        """Adds a distribution after `context`, by the tokens of it that are kept."""
        self._add(context, 1, zip(tokens, probs, strict=True))

    def rows(self) -> list[Row]:
        """Returns what was added after each n-gram, the newest last; it fits JSON."""
        return [
            (context, added, [*self._sums[context]], [*self._sums[context].values()])
            for context, added in self._added.items()
        ]

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Adds what `rows` of another returned."""
        for context, added, tokens, sums in rows:
            self._add(tuple(context), added, zip(tokens, sums, strict=True))

    def drop_oldest(self, capacity: int) -> None:
        """Drops the n-grams that nothing was added to for the longest time.

        capacity: how many n-grams to keep.
        """
        while len(self._added) > capacity:
            context = next(iter(self._added))
            del self._added[context], self._sums[context]

    def _add(self, context: NGram, added: int, sums: Iterable[tuple[int, float]]) -> None:
        self._added[context] = self._added.pop(context, 0) + added  # the newest come last
        own = self._sums.setdefault(context, {})
        for token, p in sums:
            own[token] = own.get(token, 0.0) + p

    def blended(
        self, lower: Float[Tensor, "vocab"], context: NGram, prior: float, earlier: "SoftCounts"
    ) -> Float[Tensor, "vocab"]:
        """Returns the mean distribution after `context`, with `lower` as `prior` more of them.

        Tokens that were not kept have what is left of the probability, as `lower` divides it.

        earlier: further sums, which count like its own.
        """
        parts = [part for part in (self, earlier) if context in part._added]
        if not parts:
            return lower
        added = sum(part._added[context] for part in parts)
        sums = [part._sums[context] for part in parts]
        kept = sum(sum(part.values()) for part in sums)
        q = lower * ((prior + added - kept) / (prior + added))
        for part in sums:
            tokens = torch.tensor(list(part), dtype=torch.long)
            q[tokens] += torch.tensor(list(part.values()), dtype=q.dtype) / (prior + added)
        return q


def rows_of(vocab_size: int) -> Passes:
    """Returns the bound that holds for `rows` of a vocabulary."""

    def are_rows(value: list[Any]) -> bool:
        return all(_is_row(row, vocab_size) for row in value)

    return Passes(are_rows, "of [n-gram, number, tokens, sums]")


def _is_row(row: object, vocab_size: int) -> bool:
    if not (isinstance(row, Sequence) and len(row) == 4):
        return False
    context, added, tokens, sums = row
    lists = all(isinstance(part, Sequence) for part in (context, tokens, sums))
    return (
        lists
        and all(is_int(token) and 0 <= token < vocab_size for token in (*context, *tokens))
        and is_int(added)
        and added > 0
        and len(tokens) == len(sums)
        and all(is_number(p) and p >= 0 for p in sums)
        and sum(sums) <= added * (1 + ROUNDING)
    )
