"""Intervals have the stated coverage, in simulated experiments with known rates."""

import itertools

import numpy as np
import pytest

from outrider import ConfigError
from outrider.lab.intervals import Bootstrap, difference, exchange_p, holm, median, ratio

EXPERIMENTS = 2000


def prompts(generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the accepted and tested tokens of prompts, each with its own acceptance around .6."""
    own = generator.beta(6, 4, count)
    tested = generator.integers(40, 200, count)
    return generator.binomial(tested, own).astype(float), tested.astype(float)


@pytest.mark.parametrize("count", [24, 60])
def test_the_interval_of_a_rate_covers_the_truth_in_95_of_100(count: int) -> None:
    generator = np.random.default_rng(count)
    hits = 0
    for experiment in range(EXPERIMENTS):
        interval = Bootstrap(count, seed=experiment).interval(ratio(*prompts(generator, count)))
        assert interval is not None and interval.low is not None and interval.high is not None
        hits += interval.low <= 0.6 <= interval.high
    assert 0.93 <= hits / EXPERIMENTS <= 0.97


def test_the_interval_of_a_difference_covers_it_and_its_p_is_right_where_there_is_none() -> None:
    """Two drafters on the same prompts; the second is better by .05 on each."""
    generator = np.random.default_rng(5)
    hits = wrong = 0
    for experiment in range(EXPERIMENTS):
        own = generator.beta(6, 4, 40) * 0.9
        tested = generator.integers(40, 200, 40).astype(float)
        one = generator.binomial(tested.astype(int), own).astype(float)
        other = generator.binomial(tested.astype(int), own + 0.05).astype(float)
        gap = Bootstrap(40, seed=experiment).interval(
            difference(ratio(other, tested), ratio(one, tested))
        )
        assert gap is not None and gap.low is not None and gap.high is not None
        hits += gap.low <= 0.05 <= gap.high
        if experiment < 200:  # each is a permutation test with all of its exchanges
            fork = generator.binomial(tested.astype(int), own).astype(float)
            wrong += exchange_p((one, tested), (fork, tested), seed=experiment) <= 0.05
    assert 0.93 <= hits / EXPERIMENTS <= 0.97
    assert wrong <= 20  # of 200 at 5%: more than 20 happen once in 500 times


def test_tokens_are_not_the_unit() -> None:
    """Tokens of one prompt depend on each other; an interval that ignores this is too narrow."""
    generator = np.random.default_rng(1)
    accepted, tested = prompts(generator, 30)
    interval = Bootstrap(30).interval(ratio(accepted, tested))
    assert interval is not None and interval.low is not None and interval.high is not None
    rate = accepted.sum() / tested.sum()
    naive = 2 * 1.96 * (rate * (1 - rate) / tested.sum()) ** 0.5
    assert interval.high - interval.low > 2 * naive


def test_the_exchange_of_few_prompts_is_counted_out() -> None:
    """Against all 2^n exchanges of five prompts."""
    one, other = (
        (np.array([8.0, 9, 7, 9, 8]), np.full(5, 10.0)),
        (np.array([5.0, 6, 7, 4, 8]), np.full(5, 10.0)),
    )
    observed = abs(one[0].sum() - other[0].sum()) / 50
    hits = 0
    for flips in itertools.product((False, True), repeat=5):
        first = np.where(flips, other[0], one[0]).sum()
        second = np.where(flips, one[0], other[0]).sum()
        hits += abs(first - second) / 50 >= observed - 1e-12
    assert exchange_p(one, other) == pytest.approx(hits / 32, abs=0.015)


def test_figures_that_do_not_exist_have_no_interval() -> None:
    assert Bootstrap(3).interval(ratio([1, 2, 3], [0, 0, 0])) is None
    alone = Bootstrap(1).interval(ratio([1], [2]))
    assert alone is not None and (alone.value, alone.low, alone.high) == (0.5, None, None)
    with pytest.raises(ConfigError, match="prompts=0: expected at least one"):
        Bootstrap(0)


def test_the_median_of_prompts() -> None:
    interval = Bootstrap(5).interval(median([1, 2, 3, 4, 100]))
    assert interval is not None and interval.low is not None and interval.high is not None
    assert interval.value == 3
    assert 1 <= interval.low <= 3 <= interval.high <= 100


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
