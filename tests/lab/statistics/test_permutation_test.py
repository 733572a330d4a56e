"""The test of paired differences counts all exchanges, and claims no more than prompts allow."""

import itertools

import numpy as np
import pytest

from outrider.lab.measuring.measurement import Decoding, Measurement, Step
from outrider.lab.statistics.intervals import Statistic, ratio
from outrider.lab.statistics.permutation_test import (
    BLOCK,
    holm,
    permutation_p_values,
    permutations_for,
    prompts_to_reach,
    smallest_p,
    unrejected_ratios,
)
from outrider.lab.statistics.rates import RATES


def exchange_p(one: Statistic, other: Statistic) -> float:
    return permutation_p_values([(one, other)])[0]


def test_the_exchanges_of_few_prompts_are_all_counted() -> None:
    """Against all 2^n exchanges of five prompts."""
    one, other = np.array([8.0, 9, 7, 9, 8]), np.array([5.0, 6, 7, 4, 8])
    tested = np.array([10.0, 12, 9, 10, 11])
    hits = 0
    for flips in itertools.product((False, True), repeat=5):
        first, second = np.where(flips, other, one).sum(), np.where(flips, one, other).sum()
        hits += abs(first - second) >= abs(one.sum() - other.sum())
    assert exchange_p(ratio(one, tested), ratio(other, tested)) == hits / 32


def test_exchanges_that_can_all_be_counted_are_not_stopped() -> None:
    """The first of them exchange the first prompts alone, so they are no sample of all."""
    random = np.random.default_rng(3)
    one, other = random.normal(2, 0.1, (2, 16))
    signs = 1 - 2 * ((np.arange(2**15)[:, None] >> np.arange(16)) % 2)
    hits = np.abs(signs @ (one - other)) >= abs((one - other).sum()) - 1e-9
    test = ratio(one, np.ones(16)), ratio(other, np.ones(16))
    assert permutation_p_values([test], tests=276) == [hits.mean()]
    assert hits.mean() > 0.1


@pytest.mark.parametrize("count", [2, 6, 15, 16, 40])
def test_no_p_is_below_the_least_one_of_so_many_prompts(count: int) -> None:
    """The smallest p is 2 of 2^n, which random exchanges must not undercut."""
    p = exchange_p(ratio([9] * count, [10] * count), ratio([1] * count, [10] * count))
    assert p >= smallest_p(count) == 2 / 2**count
    if count <= 15:
        assert p == smallest_p(count)


def test_drafters_that_get_to_different_depths_are_exchanged() -> None:
    def texts(*accepted: int) -> list[list[Measurement]]:
        return [[Measurement("a", 1, "chat", "x", decoding=text(count))] for count in accepted]

    def text(accepted: int) -> Decoding:
        steps = [
            Step((), (), (), 4, accepted + 1, accepted, (), (), 0.0, 0.0, 0.0, None),
            Step((), (), (), 4, 1, 0, (), (), 0.0, 0.0, 0.0, None),
        ]
        return Decoding(tuple(steps), 1.0, 1.0, 1.0)

    rate = RATES["block_efficiency_uncut"]
    one, other = rate.statistic(texts(3, 3, 2)), rate.statistic(texts(1, 0, 1))
    assert one.value == pytest.approx(1 + 8 / 6) and other.value == pytest.approx(1 + 2 / 6)
    assert exchange_p(one, other) == exchange_p(other, one) == 2 / 8


def test_equal_drafters_do_not_differ() -> None:
    random = np.random.default_rng(0)
    tested = random.integers(40, 200, 30)
    same = ratio(random.binomial(tested, 0.5), tested)
    assert exchange_p(same, same) == 1


def test_p_is_uniform_without_a_difference() -> None:
    random = np.random.default_rng(5)
    wrong = 0
    for _ in range(200):
        own = random.beta(6, 4, 10)
        tested = random.integers(40, 200, 10)
        one, other = (ratio(random.binomial(tested, own), tested) for _ in range(2))
        wrong += exchange_p(one, other) <= 0.05
    assert wrong <= 20  # of 200 at 5%: more than 20 happen once in 500 times


def test_a_family_of_many_tests_can_reach_a_small_p() -> None:
    """With 10,000 exchanges for any family, 513 tests never got below .05."""
    random, tests = np.random.default_rng(0), 513
    one = ratio(random.normal(2, 0.1, 60), np.ones(60))
    other = ratio(random.normal(1, 0.1, 60), np.ones(60))
    equal = ratio(random.normal(2, 0.1, 60), np.ones(60))
    small, large = permutation_p_values([(one, other), (one, equal)], tests=tests)
    assert small * tests < 0.01
    assert small == 1 / permutations_for(tests)
    assert large * BLOCK == round(large * BLOCK)  # it stopped as soon as it was clear


def test_many_pairs_are_counted_as_each_of_them_is_alone() -> None:
    random = np.random.default_rng(1)
    rates = [ratio(random.normal(2, 0.1, n), np.ones(n)) for n in (9, 9, 9, 20, 20)]
    pairs = [(rates[0], rates[1]), (rates[3], rates[4]), (rates[2], rates[0])]
    assert permutation_p_values(pairs) == [permutation_p_values([pair])[0] for pair in pairs]


def test_the_prompts_that_a_family_needs() -> None:
    for tests in (1, 5, 21, 378):
        prompts = prompts_to_reach(0.05, tests)
        assert tests * smallest_p(prompts) < 0.05 <= tests * smallest_p(prompts - 1)
        assert tests / permutations_for(tests) < 0.05


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize("prompts", [8, 12, 20])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_the_ratios_that_are_not_rejected_agree_with_the_test(prompts: int, level: float) -> None:
    random = np.random.default_rng(prompts)
    seconds = random.uniform(1, 3, prompts)
    speedup = ratio(seconds * random.lognormal(0.2, 0.4, prompts), seconds)
    low, high = unrejected_ratios(speedup, level)
    assert 0 < low < float(speedup.value) < high

    def p_of(value: float) -> float:
        """The p-value of the speedup being some value: of its denominators times it being 1."""
        plain = speedup.columns[:, 0]
        scaled = ratio(plain, speedup.columns[:, 1] * value)
        return exchange_p(scaled, ratio(plain, plain))

    for inside, outside in ((low * 1.001, low * 0.999), (high * 0.999, high * 1.001)):
        assert p_of(inside) >= level > p_of(outside)
    assert unrejected_ratios(speedup, 2.0**-prompts) == (0.0, float("inf"))
