"""The sentence after a comparison says what its figures say."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from outrider.lab.runs.conclusion import finding
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.pairs import Pair


def row(drafter: str, drafted: int | None = 5, **rates: Interval) -> Any:
    """A row with some rates; `drafted` is None where nothing was decoded."""
    names = ("alpha", "coverage", "speedup", "block_efficiency")
    counts = None if drafted is None else SimpleNamespace(drafted=drafted)
    return SimpleNamespace(
        drafter=drafter,
        counts=counts,
        rates=dict.fromkeys(names) | rates,
        tasks={},
        doubts=(),
        prompts=12,
    )


def lead(one: str, other: str, p: float) -> Pair:
    return Pair("speedup", one, other, Interval(0.3, 0.1, 0.5), p / 3, p, 12)


def text_of(rows: Sequence[Any], pairs: Sequence[Pair] = ()) -> str:
    return " ".join(finding(rows, pairs))


PLAIN = row("none", 0, speedup=Interval(1.0, 1.0, 1.0))
SLOW = row("medusa", speedup=Interval(0.9, 0.8, 0.95))


def test_the_fastest_is_named_with_its_interval() -> None:
    fast = row("eagle", speedup=Interval(1.5, 1.2, 1.9), block_efficiency=Interval(2.25, 2, 2.5))
    assert text_of([PLAIN, SLOW, fast]) == (
        "eagle is the fastest: 1.50 [1.20, 1.90] times as fast as plain decoding and"
        " 2.25 tokens per call."
    )
    assert text_of([PLAIN, fast]).startswith("eagle is faster: 1.50")


def test_an_interval_around_1_is_a_doubt() -> None:
    unsure = row("eagle", speedup=Interval(1.1, 0.9, 1.3))
    assert "The interval contains 1" in text_of([PLAIN, unsure, SLOW])


def test_the_lead_over_the_next_is_said_to_be_sure_or_not() -> None:
    first = row("eagle", speedup=Interval(1.5, 1.2, 1.9))
    second = row("bigram", speedup=Interval(1.2, 1.1, 1.3))
    rows = [second, PLAIN, first]
    assert text_of(rows, [lead("eagle", "bigram", 0.012)]).endswith(
        "It leads bigram by 0.30 [0.10, 0.50] (p 0.012 by Holm)."
    )
    turned = Pair("speedup", "bigram", "eagle", Interval(-0.3, -0.7, 0.1), 0.1, 0.2, 12)
    assert text_of(rows, [lead("eagle", "other", 0.01), turned]).endswith(
        "Its lead over bigram, 0.30 [-0.10, 0.70], may be chance: p is 0.2, after Holm's"
        " correction for all comparisons."
    )
    assert "lead" not in text_of(rows, [lead("eagle", "other", 0.01)])


def test_the_tasks_where_others_are_faster_are_named() -> None:
    def on_tasks(drafter: str, speedup: float, **tasks: float) -> Any:
        line = row(drafter, speedup=Interval(speedup, speedup - 0.1, speedup + 0.1))
        line.tasks = {task: {"speedup": Interval(x, x - 0.1, x + 0.1)} for task, x in tasks.items()}
        return line

    first = on_tasks("eagle", 1.5, chat=1.6, code=1.4, rewriting=1.1)
    second = on_tasks("lookup", 1.2, chat=1.0, code=1.5, rewriting=1.7)
    assert text_of([first, second]).endswith(
        "By task others are faster: lookup on code, rewriting."
    )
    first.tasks["code"] = second.tasks["code"] = {"speedup": Interval(9.0, None, None)}
    assert text_of([first, second]).endswith("faster: lookup on rewriting.")  # code can't tell
    slower = on_tasks("lookup", 1.2, chat=1.0, code=1.1, rewriting=1.0)
    assert text_of([first, slower]).endswith("It is the fastest on each of the 2 tasks.")


def test_few_prompts_and_doubts_are_named() -> None:
    fast = row("eagle", speedup=Interval(1.5, None, None))
    fast.prompts, fast.doubts = 1, ("plain decoding drifts by 25%",)
    assert text_of([PLAIN, fast]).endswith(
        "From 1 prompt, too few to say how sure this is. Doubtful: plain decoding drifts by 25%."
    )


def test_the_conclusion_says_that_nothing_is_faster() -> None:
    slower = row("bigram", speedup=Interval(0.7, None, None))
    assert text_of([PLAIN, slower, SLOW]) == (
        "No drafter is faster than plain decoding here: medusa comes nearest, with 0.90"
        " [0.80, 0.95]."
    )
    assert text_of([PLAIN, slower]) == "bigram is not faster than plain decoding here: it has 0.70."


def test_without_times_alpha_decides() -> None:
    rows = [
        row("none", None, alpha=Interval(0.0, 0.0, 0.0), coverage=Interval(0.0, 0.0, 0.0)),
        row("bigram", None, alpha=Interval(0.42, 0.39, 0.46), coverage=Interval(1.0, 1.0, 1.0)),
        row("unigram", None, alpha=Interval(0.06, 0.05, 0.07)),
    ]
    assert text_of(rows) == "bigram has the highest alpha, 0.42 [0.39, 0.46]."


def test_a_single_entrant_has_no_conclusion() -> None:
    assert finding([]) == []
    assert finding([SLOW]) == []
    assert finding([PLAIN, PLAIN]) == []
