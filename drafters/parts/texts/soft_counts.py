"""Sums of the target's distributions after n-grams, of which the likeliest tokens are kept."""

from collections.abc import Iterable, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

NGram = tuple[int, ...]


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

    def merge(self, other: "SoftCounts") -> None:
        """Adds all distributions of another."""
        for context, added in other._added.items():
            self._add(context, added, other._sums[context].items())

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
