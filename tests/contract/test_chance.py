"""Chance draws what it is told to draw, and enumerates all of it."""

import math

import pytest
import torch

from outrider import Chance, EnumeratedChance, SampledChance
from outrider.testing.chi_square import SIGNIFICANCE, chi_square


def test_enumeration_is_exact() -> None:
    probs = torch.tensor([0.5, 0.0, 0.3, 0.2], dtype=torch.float64)

    def play(chance: Chance) -> tuple[object, ...]:
        token = chance.categorical(probs)
        return (token, *chance.coins(torch.tensor([0.25, token / 4])))

    outcomes = list(EnumeratedChance.outcomes(play))
    assert math.fsum(p for p, _ in outcomes) == pytest.approx(1, abs=1e-15)
    distribution = {result: p for p, result in outcomes}
    assert (
        len(distribution) == len(outcomes) == 2 + 4 + 4
    )  # the second coin is certain after token 0
    assert distribution[0, True, False] == pytest.approx(0.5 * 0.25)
    assert distribution[2, False, True] == pytest.approx(0.3 * 0.75 * 0.5)


def test_a_coin_above_one_is_certain() -> None:
    outcomes = list(EnumeratedChance.outcomes(lambda c: c.coins(torch.tensor([3.0, 0.0]))))
    assert outcomes == [(1.0, [True, False])]
    assert SampledChance.seeded(0).coins(torch.tensor([3.0, 0.0])) == [True, False]


def test_a_play_that_remembers_is_found_out() -> None:
    seen: list[int] = []

    def play(chance: Chance) -> None:
        seen.append(1)
        if len(seen) < 2:
            chance.coins(torch.tensor([0.5]))

    with pytest.raises(RuntimeError, match="fewer decisions"):
        list(EnumeratedChance.outcomes(play))


def test_the_same_seed_draws_the_same() -> None:
    probs = torch.rand(100)
    draws = [
        [chance.categorical(probs) for _ in range(20)]
        for chance in (SampledChance.seeded(3), SampledChance.seeded(3), SampledChance.seeded(4))
    ]
    assert draws[0] == draws[1] != draws[2]


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    chance = SampledChance.seeded(0)
    chance.categorical(torch.rand(10, generator=torch.Generator()))
    chance.coins(torch.tensor([0.5]))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("size", [4, 50, 5000])
def test_draws_follow_their_distribution(size: int) -> None:
    probs = torch.rand(size, generator=torch.Generator().manual_seed(size)) ** 3
    probs[::3] = 0
    chance = SampledChance.seeded(1)
    draws = torch.tensor([chance.categorical(probs) for _ in range(20_000)])
    counts = torch.bincount(draws, minlength=size)
    assert not counts[probs == 0].any()
    parts = [counts[probs > 0], probs[probs > 0].double() / probs.double().sum()]
    while len(parts[0]) > 40:  # cells together, so that each expects enough
        parts = [
            torch.stack([part[::2][: len(part) // 2], part[1::2]]).sum(0)
            for part in (part[: len(part) // 2 * 2] for part in parts)
        ]
    assert chi_square(parts[0], parts[1] / parts[1].sum()) > SIGNIFICANCE


@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2**-53])
def test_no_uniform_hits_a_token_without_probability(
    u: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = SampledChance.seeded(0)
    monkeypatch.setattr(chance, "_uniform", lambda n: [u] * n)
    probs = torch.tensor([0, 0.1, 0, 0, 0.7, 0.2, 0, 0])
    for scale in (1.0, 1e-30, 3e7):
        assert probs[chance.categorical(probs * scale)] > 0


@pytest.mark.parametrize("probs", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
@pytest.mark.parametrize("chance", [SampledChance.seeded(0), EnumeratedChance([])])
def test_a_distribution_without_mass_is_refused(probs: list[float], chance: Chance) -> None:
    with pytest.raises(ValueError, match="probabilities sum to"):
        chance.categorical(torch.tensor(probs))
