"""Chance: every random decision of a round, drawn to decode or enumerated to prove."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

T = TypeVar("T")


class Chance(ABC):
    """The only source of randomness for drafters and acceptance rules."""

    @abstractmethod
    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        """Returns n independent coin flips; flip i is true with probability min(1, probs[i])."""

    @abstractmethod
    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        """Returns an index drawn from `probs`, which need not sum to one.

        Raises:
            ValueError: `probs` sums to zero, or holds NaN or infinity.
        """


@final
class SampledChance(Chance):
    """Draws from its own generator and never touches the global one."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    @classmethod
    def seeded(cls, seed: int) -> "SampledChance":
        """Returns a chance that makes the same decisions for the same seed.

        It draws on the CPU, so a seed means the same on every device.
        """
        return cls(torch.Generator().manual_seed(seed))

    def _uniform(self, n: int) -> list[float]:
        drawn: list[float] = torch.rand(n, dtype=torch.float64, generator=self.generator).tolist()
        return drawn

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return [u < p for u, p in zip(self._uniform(len(probs)), probs.tolist(), strict=True)]

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        # Inverse transform sampling in float64. A token of probability zero has an interval of
        # width zero, so it is never drawn.
        below = probs.cumsum(-1, dtype=torch.float64)
        total = float(below[-1])
        if not (math.isfinite(total) and total > 0):
            raise ValueError(f"probabilities sum to {total}")
        # Rounding may lift u * total to the total itself, past the last token.
        u = min(self._uniform(1)[0] * total, math.nextafter(total, 0))
        return int(torch.searchsorted(below, u, right=True))


@dataclass
class _Fork:
    """One decision: its possible values, their probabilities, and the branch taken now."""

    values: list[Any]
    probs: list[float]
    taken: int = 0


@final
class EnumeratedChance(Chance):
    """Takes every branch of every decision, so that probabilities can be summed exactly.

    Ordinary Python code is enumerated as it is: `outcomes` runs it once for each branch.

    >>> two_coins = lambda chance: sum(chance.coins(torch.tensor([0.5, 0.25])))
    >>> [(p, heads) for p, heads in EnumeratedChance.outcomes(two_coins)]
    [(0.125, 2), (0.375, 1), (0.125, 1), (0.375, 0)]
    """

    def __init__(self, forks: list[_Fork]) -> None:
        self._forks = forks
        self._depth = 0
        self.probability = 1.0

    @classmethod
    def outcomes(cls, play: Callable[[Chance], T]) -> Iterator[tuple[float, T]]:
        """Yields (probability, result) of `play` for each combination of its decisions.

        Raises:
            RuntimeError: a replay of `play` made other decisions than before, because it has
                randomness of its own or remembers an earlier replay.
        """
        forks: list[_Fork] = []
        while True:
            chance = cls(forks)
            result = play(chance)
            if chance._depth != len(forks):
                raise RuntimeError("a replay made fewer decisions than the run before it")
            yield chance.probability, result
            while forks and forks[-1].taken == len(forks[-1].values) - 1:
                forks.pop()
            if not forks:
                return
            forks[-1].taken += 1

    def _decide(self, values: Sequence[Any], probs: Sequence[float]) -> Any:
        possible = [(value, p) for value, p in zip(values, probs, strict=True) if p > 0]
        fork = _Fork([value for value, _ in possible], [p for _, p in possible])
        if self._depth == len(self._forks):
            self._forks.append(fork)
        known = self._forks[self._depth]
        if known.values != fork.values or known.probs != fork.probs:
            raise RuntimeError("a replay met another decision than the run before it")
        self._depth += 1
        self.probability *= known.probs[known.taken]
        return known.values[known.taken]

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        return [
            self._decide((True, False), (p, 1 - p)) for p in probs.double().clamp(max=1).tolist()
        ]

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        exact = probs.double()
        total = float(exact.sum())
        if not (math.isfinite(total) and total > 0):
            raise ValueError(f"probabilities sum to {total}")
        index: int = self._decide(range(len(exact)), (exact / total).tolist())
        return index
