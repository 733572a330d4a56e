"""Chance draws what it is told to draw, and enumerates all of it."""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from outrider import Chance, SampledChance
from outrider.contract.chance import token_at, winner
from outrider.testing.enumerated import EnumeratedChance


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

    with pytest.raises(AssertionError, match="other decisions in a replay"):
        list(EnumeratedChance.outcomes(play))


def test_a_coin_is_true_on_just_its_share_of_the_numbers() -> None:
    chance = SampledChance.seeded(0)
    chance._tossed.extend([0.0, 0.0, 0.25, 0.25 - 2**-53])
    assert chance.coins(torch.tensor([0.0, 1e-12, 0.25, 0.25])) == [False, True, False, True]


def test_a_large_vocabulary_is_cut_where_exact_sums_say() -> None:
    """Sums in float32 would move the bounds by more than a token's own probability."""
    size = 50_000
    probs = (torch.randn(size, generator=torch.Generator().manual_seed(1)) * 2).exp()
    sums = [Fraction(0)]
    for p in probs.tolist():
        sums.append(sums[-1] + Fraction(p))
    tokens = range(999, size, 2477)
    bounds = [float(sums[token] / sums[-1]) for token in tokens]
    margin = 1e-11
    assert all(float(probs[token - 1 : token + 1].min()) > margin * sums[-1] for token in tokens)
    assert [token_at(probs, u - margin) for u in bounds] == [token - 1 for token in tokens]
    assert [token_at(probs, u + margin) for u in bounds] == list(tokens)


def written_scheme(*parts: bytes) -> np.random.Generator:
    """docs/measures.md: SHA-256 from the seed down to the generator, and numpy's Philox."""
    key = hashlib.sha256(b"outrider/7/2").digest()
    for part in parts:
        key = hashlib.sha256(key + part).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))


@pytest.mark.parametrize("part", [b"target", b"drafter"])
def test_the_generators_are_those_of_the_written_scheme(part: bytes) -> None:
    """So the numbers of parts, of coins, of tokens and of positions are independent."""
    chance, probs = SampledChance.seeded(7, 2).named(part.decode()), torch.tensor([0.5, 0, 0.3])
    uniforms = written_scheme(part, b"coins").random(50).tolist()
    coins = [coin for n in (1, 29, 20) for coin in chance.coins(torch.full((n,), 0.4))]
    assert coins == [u < 0.4 for u in uniforms]
    uniforms = written_scheme(part, b"tokens").random(50).tolist()
    assert [chance.categorical(probs) for _ in uniforms] == [token_at(probs, u) for u in uniforms]
    for position in range(50):
        times = written_scheme(part, f"race/{position}".encode()).standard_exponential(3)
        assert chance.race(probs, position) == winner(probs, torch.from_numpy(times))


def test_no_text_changes_with_a_release() -> None:
    """Sampled texts are repeatable: these are the first draws of seed 0."""
    chance = SampledChance.seeded(0)
    parts = [chance.named(name) for name in ("target", "drafter")]
    draws = [[part.categorical(torch.ones(1000)) for _ in range(3)] for part in parts]
    assert draws == [[577, 353, 51], [981, 558, 901]]


def test_a_name_stands_for_the_same_part_whatever_was_drawn_before() -> None:
    chance, probs = SampledChance.seeded(3), torch.full((60,), 0.5)
    first = chance.named("target").coins(probs)
    chance.coins(probs)
    assert chance.named("target").coins(probs) == first
    assert chance.named("drafter").coins(probs) != first


@pytest.mark.parametrize("probs", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
@pytest.mark.parametrize("chance", [SampledChance.seeded(0), EnumeratedChance([])])
def test_a_distribution_without_mass_is_refused(probs: list[float], chance: Chance) -> None:
    with pytest.raises(ValueError, match="probabilities sum to"):
        chance.categorical(torch.tensor(probs))


def test_a_pick_of_any_chance_is_its_categorical_draw() -> None:
    probs = torch.tensor([0.25, 0.0, 0.75], dtype=torch.float64)
    picks = EnumeratedChance.outcomes(lambda chance: chance.pick(probs).tolist())
    assert list(picks) == [(0.25, [0]), (0.75, [2])]
