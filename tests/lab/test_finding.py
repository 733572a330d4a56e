"""The sentence after a comparison says what its figures say."""

from types import SimpleNamespace
from typing import Any

from outrider.lab.finding import finding
from outrider.lab.intervals import Interval


def row(drafter: str, drafted: int | None = 5, **rates: Interval) -> Any:
    """A row with some rates; `drafted` is None where nothing was decoded."""
    names = ("alpha", "coverage", "speedup", "block_efficiency")
    counts = None if drafted is None else SimpleNamespace(drafted=drafted)
    return SimpleNamespace(
        drafter=drafter, counts=counts, rates=dict.fromkeys(names) | rates, lossless=True
    )


PLAIN = row("none", 0, speedup=Interval(1.0, 1.0, 1.0))
SLOW = row("medusa", speedup=Interval(0.9, 0.8, 0.95))


def test_the_fastest_is_named_with_its_interval() -> None:
    fast = row("eagle", speedup=Interval(1.5, 1.2, 1.9), block_efficiency=Interval(2.25, 2, 2.5))
    assert finding([PLAIN, SLOW, fast]) == (
        "eagle is the fastest: 1.50 [1.20, 1.90] times as fast as plain decoding and"
        " 2.25 tokens per call."
    )
    assert str(finding([PLAIN, fast])).startswith("eagle is faster: 1.50")


def test_an_interval_around_1_is_a_doubt() -> None:
    unsure = row("eagle", speedup=Interval(1.1, 0.9, 1.3))
    assert "The interval contains 1" in str(finding([PLAIN, unsure, SLOW]))


def test_where_nothing_is_faster_it_says_so() -> None:
    slower = row("bigram", speedup=Interval(0.7, None, None))
    assert finding([PLAIN, slower, SLOW]) == (
        "No drafter is faster than plain decoding here: medusa comes nearest, with 0.90"
        " [0.80, 0.95]."
    )
    assert finding([PLAIN, slower]) == (
        "bigram is not faster than plain decoding here: it has 0.70."
    )


def test_without_times_alpha_decides() -> None:
    rows = [
        row("none", None, alpha=Interval(0.0, 0.0, 0.0), coverage=Interval(0.0, 0.0, 0.0)),
        row("bigram", None, alpha=Interval(0.42, 0.39, 0.46), coverage=Interval(1.0, 1.0, 1.0)),
        row("unigram", None, alpha=Interval(0.06, 0.05, 0.07)),
    ]
    assert finding(rows) == "bigram has the highest alpha, 0.42 [0.39, 0.46]."


def test_nothing_to_compare_is_no_finding() -> None:
    assert finding([]) is None
    assert finding([SLOW]) is None
    assert finding([PLAIN, PLAIN]) is None
