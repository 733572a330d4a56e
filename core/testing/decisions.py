"""The random decisions that all texts rest on: they are as likely as said, and independent."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import product

import torch

from outrider.contract.chance import TARGET, SampledChance
from outrider.testing.chi_square import SIGNIFICANCE, chi_square

TEXTS = 400
"""How many texts of a seed decide: enough to see two decisions by one number."""
PROBS = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
PAIRS: dict[str, Callable[[SampledChance], tuple[int, int]]] = {
    "coins": lambda chance: (not chance.coins(PROBS[:1])[0], not chance.coins(PROBS[:1])[0]),
    "coins of one call": lambda chance: _as_pair([not c for c in chance.coins(PROBS[[0, 0]])]),
    "tokens": lambda chance: (chance.categorical(PROBS), chance.categorical(PROBS)),
    "tokens of two positions": lambda chance: (chance.race(PROBS, 3), chance.race(PROBS, 4)),
    "tokens of two parts": lambda chance: (
        chance.categorical(PROBS),
        chance.named("part").categorical(PROBS),
    ),
    "coins and tokens": lambda chance: (not chance.coins(PROBS[:1])[0], chance.categorical(PROBS)),
}
"""By name, two decisions of one text, as numbers from 0."""
COINS = torch.tensor([0.5, 0.5], dtype=torch.float64)


def check_decisions_are_independent(_: object) -> None:
    """Two coins or tokens of one text are as likely as said, whatever the other one is, by a
    chi-square test with a fixed seed.
    """
    all_independent()


@cache
def all_independent() -> None:
    """Raises AssertionError unless all pairs are; it looks once in a process."""
    for name, decide in PAIRS.items():
        first = COINS if name.startswith("coins") else PROBS
        second = COINS if name in ("coins", "coins of one call") else PROBS
        counts = Counter(decide(SampledChance.seeded(1, n).named(TARGET)) for n in range(TEXTS))
        cells = list(product(range(len(first)), range(len(second))))
        expected = torch.stack([first[left] * second[right] for left, right in cells])
        seen = torch.tensor([float(counts[cell]) for cell in cells])
        value = chi_square(seen, expected)
        assert value > SIGNIFICANCE, f"two {name} depend on each other (p-value {value:.0e})"


def _as_pair(coins: list[bool]) -> tuple[int, int]:
    return int(coins[0]), int(coins[1])


CHECKS = (check_decisions_are_independent,)
