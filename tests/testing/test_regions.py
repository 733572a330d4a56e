"""Races: the joint distribution is the published one, and the sampled noise follows it."""

import itertools

import pytest
import torch

from outrider import Chance, SampledChance
from outrider.contract.chance import winner
from outrider.testing.chi_square import SIGNIFICANCE, chi_square
from outrider.testing.exact import distribution_of
from outrider.testing.regions import Region


def laws(vocab: int, count: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(count, vocab, generator=generator, dtype=torch.float64) ** 2
    return list(rows / rows.sum(-1, keepdim=True))


def joint(races: list[tuple[torch.Tensor, int]]) -> dict[tuple[int, ...], float]:
    """Returns the exact distribution of the winners of several races, each at its position."""
    return distribution_of(lambda chance: tuple(chance.race(*race) for race in races))


@pytest.mark.parametrize("vocab", [1, 2, 3, 4, 5])
def test_two_races_agree_as_often_as_the_paper_says(vocab: int) -> None:
    for seed in range(4):
        p, q = laws(vocab, 2, seed)
        output = joint([(q, 7), (p, 7)])
        for x in range(vocab):
            expected = 1 / float(torch.maximum(p / p[x], q / q[x]).sum())
            assert output[x, x] == pytest.approx(expected, abs=1e-13)
            assert sum(output[x, y] for y in range(vocab)) == pytest.approx(float(q[x]), abs=1e-13)
            assert sum(output[y, x] for y in range(vocab)) == pytest.approx(float(p[x]), abs=1e-13)


def test_two_different_winners_have_the_probability_of_the_integral() -> None:
    """P(i wins for q, j for p) = q_i p_j times the integral of (c + d t)^-2, piece by piece."""
    for seed in range(4):
        rows = laws(3, 2, seed)
        output = joint([(rows[1], 0), (rows[0], 0)])
        p, q = (row.tolist() for row in rows)
        for i, j in itertools.permutations(range(3), 2):
            # Arrival times s of i and s t of j, each divided by its probability.
            low, high = q[j] / p[j], q[i] / p[i]
            total = 0.0
            bends = {q[x] / p[x] for x in range(3) if low < q[x] / p[x] < high}
            ends = sorted({low, high} | bends)
            for start, end in itertools.pairwise(ends) if low < high else ():
                middle = (start + end) / 2
                others = [x for x in range(3) if x not in (i, j)]
                c = q[i] + sum(q[x] for x in others if q[x] >= p[x] * middle)
                d = p[j] + sum(p[x] for x in others if q[x] < p[x] * middle)
                total += q[i] * p[j] * (end - start) / ((c + d * start) * (c + d * end))
            assert output[i, j] == pytest.approx(total, abs=1e-13)


def test_positions_have_independent_noise_and_a_race_repeats() -> None:
    p, q, r = laws(3, 3, 1)
    output = joint([(p, 0), (q, 1), (p, 0), (r, 0), (q, 1)])
    for (a, b, c, _, e), probability in output.items():
        assert (a, b) == (c, e) or probability < 1e-13
    assert sum(output.values()) == pytest.approx(1, abs=1e-13)
    for a, b in itertools.product(range(3), repeat=2):
        both = sum(probability for key, probability in output.items() if key[:2] == (a, b))
        assert both == pytest.approx(float(p[a] * q[b]), abs=1e-13)


def test_a_token_without_probability_never_wins() -> None:
    p = torch.tensor([0.0, 0.4, 0.6, 0.0], dtype=torch.float64)
    assert set(joint([(p, 0)])) == {(1,), (2,)}
    assert winner(p, torch.zeros(4, dtype=torch.float64)) in (1, 2)
    assert {SampledChance.seeded(0).race(p, position) for position in range(200)} == {1, 2}
    with pytest.raises(ValueError, match="probabilities sum to 0"):
        winner(torch.zeros(3), torch.ones(3))


def test_the_regions_of_the_winners_fill_the_whole() -> None:
    for vocab in (2, 3, 4, 5):
        region = Region.whole(vocab)
        for probs in laws(vocab, 3, vocab):
            parts = [region.won_by(token, probs.tolist()) for token in range(vocab)]
            assert sum(part.share for part in parts) == pytest.approx(region.share, abs=1e-13)
            region = max(parts, key=lambda part: part.share)


def test_sampled_noise_has_the_enumerated_law() -> None:
    p, q = laws(4, 2, 3)
    output = joint([(q, 0), (p, 0)])
    cells = [cell for cell, probability in output.items() if probability > 1e-12]
    counts = dict.fromkeys(cells, 0)
    chance = SampledChance.seeded(11)
    for position in range(5_000):
        counts[chance.race(q, position), chance.race(p, position)] += 1
    expected = torch.tensor([output[cell] for cell in cells], dtype=torch.float64)
    observed = torch.tensor([counts[cell] for cell in cells])
    assert chi_square(observed, expected) > SIGNIFICANCE


def test_a_race_depends_on_seed_text_and_position_alone() -> None:
    p = laws(50, 1, 0)[0]

    def draws(chance: Chance) -> list[int]:
        return [chance.race(p, position) for position in range(30)]

    first = draws(SampledChance.seeded(3, 1))
    moved = SampledChance.seeded(3, 1)
    moved.coins(p)
    moved.categorical(p)
    assert draws(moved) == first
    assert draws(SampledChance.seeded(3, 2)) != first
    assert draws(SampledChance.seeded(4, 1)) != first
    assert len(set(first)) > 5
