"""Intervals contain the true value as often as they claim, and are left out where they can't."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.lab.statistics.intervals import (
    Interval,
    Statistic,
    difference,
    interval,
    median,
    prompts_needed,
    quotient,
    ratio,
)

ROOT = Path(__file__).parents[3]


def prompts(count: int, seed: int = 1) -> Statistic:
    """Returns the accepted over the tested tokens of prompts, each with its own acceptance."""
    random = np.random.default_rng(seed)
    tested = random.integers(40, 200, count)
    return ratio(random.binomial(tested, random.beta(6, 4, count)), tested)


def test_the_table_of_coverage_in_the_docs_is_the_scripts_output(script: Any) -> None:
    """2000 experiments with known rates; the script fails below 92 in 100."""
    *tables, gaining = script.done(ROOT / "evidence" / "coverage.py").strip().split("\n\n")
    rows = zip(*(table.splitlines()[2:] for table in tables), strict=True)
    page = (ROOT / "docs" / "evidence" / "statistics.md").read_text(encoding="utf-8")
    for row in rows:  # of a rate, a difference and a quotient, which share the page's cells
        names, *cells = zip(*(line.strip("| ").split(" | ") for line in row), strict=True)
        shown = (", ".join(cell).replace("0.", ".") for cell in cells)
        assert f"| {names[0]} | {' | '.join(shown)} |" in page
    assert gaining.replace("0.", ".") in page


def test_tokens_are_not_the_unit() -> None:
    """Tokens of one prompt depend on each other; an interval that ignores this is too narrow."""
    statistic = prompts(30)
    rate = interval(statistic, "logit")
    assert rate.low < rate.value < rate.high
    tested = statistic.columns[:, 1].sum()
    naive = 2 * 1.96 * (rate.value * (1 - rate.value) / tested) ** 0.5
    assert rate.high - rate.low > 2 * naive


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.array([1.0, 2, 4, 7, 5, 3])
    mean = interval(ratio(values, np.ones(6)), "linear")
    assert mean is not None and mean.high is not None
    t = 2.5705818  # of 5 degrees of freedom
    assert mean.high - mean.value == pytest.approx(t * values.std(ddof=1) / 6**0.5)


def test_a_prompt_that_outweighs_the_others_widens_the_interval() -> None:
    rates = np.array([0.5, 0.6, 0.4, 0.55, 0.45, 0.5])
    even, heavy = np.full(6, 100.0), np.array([500.0, 20, 20, 20, 20, 20])
    assert ratio(even * rates, even).effective == pytest.approx(6)
    assert ratio(heavy * rates, heavy).effective < 1.5
    alone = interval(ratio([3, 0, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0]), "logit")
    assert alone is not None and (alone.value, alone.low, alone.high) == (0.5, None, None)


def test_fewer_than_five_prompts_have_no_interval() -> None:
    """Two prompts that happen to agree once gave [0.062, 0.062]."""
    for count in (1, 2, 4):
        rate = interval(prompts(count), "logit")
        assert rate is not None and rate.low is None and rate.high is None
        assert median(range(count)).low is None  # type: ignore[union-attr]
    rate = interval(prompts(5), "logit")
    assert rate is not None and rate.low is not None


def test_figures_that_do_not_exist_have_no_interval() -> None:
    assert interval(ratio([1, 2, 3], [0, 0, 0]), "logit") is None
    assert median([]) is None
    same = interval(ratio([1.0] * 8, [2.0] * 8), "logit")  # no spread, so no interval
    assert same is not None and (same.value, same.low) == (0.5, None)


def test_intervals_stay_where_their_figures_are() -> None:
    accepted, tested = [99, 100, 100, 100, 100, 97], [100] * 6
    rate = interval(ratio(accepted, tested), "logit")
    assert rate is not None and rate.high is not None and rate.high < 1
    speed = interval(ratio([1, 1, 1, 1, 9], [1] * 5), "log")
    assert speed is not None and speed.low is not None and speed.low > 0


def test_a_difference_and_a_quotient_are_paired() -> None:
    """The second drafter is worse by a tenth on every prompt; the prompts differ much more."""
    one = prompts(24)
    other = ratio(0.9 * one.columns[:, 0], one.columns[:, 1])
    gap, times = difference(one, other), quotient(other, one)
    own = interval(one, "linear")
    assert gap is not None and own is not None and gap.low and gap.high and own.low and own.high
    assert gap.value == pytest.approx(own.value / 10)
    assert gap.high - gap.low == pytest.approx((own.high - own.low) / 10)
    assert times is not None and times.value == pytest.approx(0.9)


def test_the_median_of_prompts_lies_between_two_of_them() -> None:
    rate = median([1, 2, 3, 4, 100])
    assert rate is not None and (rate.value, rate.low, rate.high) == (3, 1, 100)
    assert median([1] * 9) == Interval(1, None, None)  # no spread, so no interval
    many = median(list(range(100)))  # P(fewer than 40 of 100 heads) is 1.8%
    assert many is not None and (many.low, many.high) == (39, 60)


def test_how_many_prompts_a_precision_takes() -> None:
    """As many as were measured, for the precision that was reached."""
    statistic = prompts(24)
    rate = interval(statistic, "linear")
    reached = rate.high - rate.value
    assert prompts_needed(statistic, reached * 1.0001) == 24
    assert 85 <= (prompts_needed(statistic, reached / 2) or 0) <= 96
    assert prompts_needed(statistic, 1e-9) is None
    assert prompts_needed(prompts(4), 0.1) is None
