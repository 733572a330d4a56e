"""Seeded: the chance of one seed, enumerated: whoever draws by it again meets the same numbers."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.chance import Chance

ROUNDING = 1e-13
"""A share of an interval this small is rounding."""

Interval = tuple[float, float]


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
