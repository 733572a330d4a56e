"""Enumerated chance: every branch of every decision is taken, so that probabilities add up.

That of one seed is enumerated, too: whoever draws by it again meets the same numbers.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import OutriderError
from outrider.contract.chance import Chance, Key
from outrider.testing.regions import Region

T = TypeVar("T")


class ReplayError(OutriderError, AssertionError):
    """A part made other decisions in a replay; whose fault it is, the check that runs knows."""

    def __init__(self) -> None:
        super().__init__(
            "drew other decisions in a replay of the same text: state is left over from another"
            " text, or chance was used outside the pen"
        )


CLOSE = 1e-10
"""How far apart the probabilities of one decision may be in two replays."""

ROUNDING = 1e-13
"""A share of an interval this small is rounding."""

Interval = tuple[float, float]


@dataclass(slots=True)
class _Decision:
    """One decision: its possible values, their probabilities, and the index of the value taken now.

    arguments: all values and their probabilities, the impossible ones included.
    """

    values: list[Any]
    probs: list[float]
    arguments: tuple[Sequence[Any], Sequence[float]]
    taken: int = 0

    @classmethod
    def between(cls, values: Sequence[Any], probs: Sequence[float]) -> "_Decision":
        """Returns the decision between the values whose probability is not zero."""
        possible = [(value, p) for value, p in zip(values, probs, strict=True) if p > 0]
        return cls([value for value, _ in possible], [p for _, p in possible], (values, probs))


@final
class EnumeratedChance(Chance):
    """Takes every branch of every decision, so that probabilities can be summed exactly.

    `outcomes` runs ordinary Python code once for each combination of its decisions.

    >>> two_coins = lambda chance: sum(chance.coins(torch.tensor([0.5, 0.25])))
    >>> [(p, heads) for p, heads in EnumeratedChance.outcomes(two_coins)]
    [(0.125, 2), (0.375, 1), (0.125, 1), (0.375, 0)]
    """

    def __init__(self, decisions: list[_Decision], begun: int = 0) -> None:
        self._decisions, self._begun = decisions, begun
        self._depth = 0  # how many of them this replay has met
        self._noise: dict[Key, Region] = {}  # by key, the noise that fits the races so far
        self.probability: float = 1.0

    @classmethod
    def outcomes(cls, play: Callable[[Chance], T], begun: int = 0) -> Iterator[tuple[float, T]]:
        """Yields (probability, result) of `play` for each combination of its decisions.

        begun: how many decisions are taken in one way alone, so that the later ones are seen.

        Raises `ReplayError` if a replay of `play` made different decisions than before, because it
        has randomness of its own or remembers an earlier replay.
        """
        decisions: list[_Decision] = []
        while True:
            chance = cls(decisions, begun)
            result = play(chance)
            if chance._depth != len(decisions):
                raise ReplayError
            yield chance.probability, result
            while len(decisions) > begun and decisions[-1].taken == len(decisions[-1].values) - 1:
                decisions.pop()
            if len(decisions) <= begun:
                return
            decisions[-1].taken += 1

    def race(self, probs: Float[Tensor, "vocab"], key: Key) -> int:
        exact = probs.tolist()  # in float64
        noise = self._noise.get(key, Region.whole(len(exact)))
        parts = [noise.won_by(token, exact) for token in range(len(exact))]
        shares = [part.share for part in parts]
        total = sum(shares)
        # A share this small is rounding: the token can't win given the races before.
        possible = [share / total if share > 1e-14 * total else 0.0 for share in shares]
        index: int = self._decide(range(len(parts)), possible)
        self._noise[key] = parts[index]
        return index

    def _decide(self, values: Sequence[Any], probs: Sequence[float]) -> Any:
        if self._depth == len(self._decisions):
            decision = _Decision.between(values, probs)
            decision.taken = self._depth % len(decision.values) if self._depth < self._begun else 0
            self._decisions.append(decision)
        decision = self._decisions[self._depth]
        if decision.arguments != (values, probs):
            replayed = _Decision.between(values, probs)
            first, second = decision.probs, replayed.probs
            # A model's cache may change last digits.
            is_same = decision.values == replayed.values and (
                first == second or np.allclose(first, second, rtol=0, atol=CLOSE)
            )
            if not is_same:
                raise ReplayError
        self._depth += 1
        self.probability *= decision.probs[decision.taken]
        return decision.values[decision.taken]

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        shares = (min(p, 1.0) for p in probs.tolist())
        return [self._decide((True, False), (p, 1 - p)) for p in shares]

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        exact = probs.tolist()  # in float64
        total = sum(exact)
        if not (math.isfinite(total) and total > 0):
            raise ValueError(f"probabilities sum to {total}")
        index: int = self._decide(range(len(exact)), [p / total for p in exact])
        return index


@final
class Seed:
    """The uniform numbers of a seed, each known as far as its decisions have told.

    chance: enumerates the decisions, such as an `EnumeratedChance`.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._known: dict[tuple[str, str, int], Interval] = {}

    def decided(self, number: tuple[str, str, int], parts: list[Interval]) -> int:
        """Returns the part that holds a number; the parts lie side by side, from 0 to 1."""
        low, high = self._known.get(number, (0.0, 1.0))
        inside = [(max(low, begin), min(high, end)) for begin, end in parts]
        sizes = [max(0.0, end - begin) / (high - low) for begin, end in inside]
        possible = [size if size > ROUNDING else 0.0 for size in sizes]
        part = self._chance.categorical(torch.tensor(possible, dtype=torch.float64))
        self._known[number] = inside[part]
        return part


@final
class SeededChance(Chance):
    """Decides as `SampledChance` does, by the uniform numbers of a seed.

    name: parts with other names have other numbers; those with one name have the same.
    """

    def __init__(self, seed: Seed, name: str) -> None:
        self._seed, self._name = seed, name
        self._drawn = {"coins": 0, "tokens": 0}

    @property
    def label(self) -> str:
        return self._name

    def named(self, name: str) -> "SeededChance":
        return SeededChance(self._seed, f"{self._name}/{name}")

    def _decide(self, stream: str, parts: list[Interval]) -> int:
        index, self._drawn[stream] = self._drawn[stream], self._drawn[stream] + 1
        return self._seed.decided((self._name, stream, index), parts)

    def coins(self, probs: Float[Tensor, "n"]) -> list[bool]:
        shares = [min(p, 1.0) for p in probs.tolist()]
        return [self._decide("coins", [(0.0, p), (p, 1.0)]) == 0 for p in shares]

    def categorical(self, probs: Float[Tensor, "vocab"]) -> int:
        ends = (probs.double() / probs.double().sum()).cumsum(0).tolist()
        return self._decide("tokens", list(zip([0.0, *ends[:-1]], ends, strict=True)))
