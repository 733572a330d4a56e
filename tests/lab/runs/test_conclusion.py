"""The sentence after a comparison says what its figures say."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from outrider.lab.runs.conclusion import conclusion
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
        lossless=True,
        target_itself=drafter == "quantized",
        control=drafter in ("none", "random"),
    )


def lead(one: str, other: str, p: float) -> Pair:
    return Pair("speedup", one, other, Interval(0.3, 0.1, 0.5), p / 3, p, 12, family=3)


def over_plain(one: str, p: float = 0.001) -> Pair:
    return Pair("speedup", one, "plain decoding", Interval(0.5, 0.2, 0.9), p / 2, p, 12, family=2)


def text_of(rows: Sequence[Any], *pairs: Sequence[Pair], reference: str | None = None) -> str:
    return " ".join(conclusion(rows, *pairs, reference=reference))


PLAIN = row("none", 0, speedup=Interval(1.0, 1.0, 1.0))
SLOW = row("medusa", speedup=Interval(0.9, 0.8, 0.95))


def test_the_target_itself_does_not_stand_for_the_others() -> None:
    own = row("quantized", speedup=Interval(1.9, 1.7, 2.1), block_efficiency=Interval(4.6, 4, 5))
    fast = row("eagle", speedup=Interval(1.5, 1.2, 1.9), block_efficiency=Interval(2.25, 2, 2.5))
    said = (
        "quantized is the target itself, so that it is exact by construction. Of the others"
        " eagle ranks first, 1.50 [1.20, 1.90] and 2.25 tokens per call."
    )
    assert said in text_of([PLAIN, fast, own])
    assert "itself" not in text_of([PLAIN, own]) and "itself" not in text_of([PLAIN, fast, SLOW])


def test_the_fastest_has_passed_its_tests() -> None:
    fast = row("eagle", speedup=Interval(1.5, 1.2, 1.9), block_efficiency=Interval(2.25, 2, 2.5))
    rows, sure = [PLAIN, SLOW, fast], [over_plain("eagle")]
    figures = "1.50 [1.20, 1.90] times as fast as plain decoding and 2.25 tokens per call."
    assert text_of(rows, [lead("eagle", "medusa", 0.012)], sure) == (
        f"eagle is the fastest: {figures}"
        " It leads medusa by 0.30 [0.10, 0.50] (p 0.012), by Holm over 3 pairs."
    )
    assert text_of(rows, [lead("eagle", "medusa", 0.2)], sure) == (
        f"eagle ranks first: {figures} Its lead over medusa, 0.30 [0.10, 0.50], may be chance:"
        " p is 0.2 by Holm over 3 pairs."
    )
    assert text_of(rows, [], sure) == (
        f"eagle ranks first: {figures} Its lead over medusa is not tested."
    )
    assert text_of([PLAIN, fast], [], sure) == f"eagle is faster: {figures}"


def test_a_speedup_that_may_be_chance_is_no_finding_of_speed() -> None:
    unsure = row("eagle", speedup=Interval(1.1, 0.9, 1.3))
    rows = [PLAIN, unsure, SLOW]
    said = text_of(rows, [lead("eagle", "medusa", 0.01)], [over_plain("eagle", 0.3)])
    assert said.startswith("eagle ranks first: 1.10 [0.90, 1.30]")
    assert "This may be chance: p is 0.3 by Holm over 2 drafters" in said


def test_a_lead_that_is_turned_round_is_read_rightly() -> None:
    first = row("eagle", speedup=Interval(1.5, 1.2, 1.9))
    second = row("bigram", speedup=Interval(1.2, 1.1, 1.3))
    turned = replace(lead("bigram", "eagle", 0.2), difference=Interval(-0.3, -0.7, 0.1))
    assert text_of([second, PLAIN, first], [turned], [over_plain("eagle")]).endswith(
        "Its lead over bigram, 0.30 [-0.10, 0.70], may be chance: p is 0.2 by Holm over 3 pairs."
    )


def test_many_who_may_be_as_fast_are_counted() -> None:
    rows = [row("eagle", speedup=Interval(2.0, 1.5, 2.5))]
    rows += [row(f"d{i}", speedup=Interval(1 + i / 10, 0.5, 1.9)) for i in range(5)]
    pairs = [lead("eagle", f"d{i}", 0.01 if i == 4 else 0.5) for i in range(5)]
    assert "may be chance over 4 of 5, by Holm over 3 pairs: d3 by 0.30" in text_of(rows, pairs)
    assert text_of(rows, pairs).endswith("and 1 more.")


def test_a_reference_is_told_apart_from_the_others() -> None:
    rows = [
        row("mine", speedup=Interval(1.5, 1.2, 1.9)),
        row("fast", speedup=Interval(1.9, 1.8, 2.0)),
        row("alike", speedup=Interval(1.4, 1.2, 1.9)),
        SLOW,
    ]
    slower = replace(lead("mine", "fast", 0.03), difference=Interval(-0.4, -0.5, -0.3))
    pairs = [slower, lead("mine", "alike", 0.4), lead("mine", "medusa", 0.01)]
    assert text_of(rows, pairs, [over_plain("mine")], reference="mine") == (
        "mine: 1.50 [1.20, 1.90] times as fast as plain decoding. By Holm over 3 comparisons it is"
        " faster than medusa by 0.30 [0.10, 0.50] (p 0.01); slower than fast by 0.40 [0.30, 0.50]"
        " (p 0.03); not told apart from alike by 0.30 [0.10, 0.50] (p 0.4)."
    )


def test_the_tasks_where_others_are_faster_are_tested_or_called_a_ranking() -> None:
    def on_tasks(drafter: str, speedup: float, **tasks: float) -> Any:
        line = row(drafter, speedup=Interval(speedup, speedup - 0.1, speedup + 0.1))
        line.tasks = {task: {"speedup": Interval(x, x - 0.1, x + 0.1)} for task, x in tasks.items()}
        return line

    def by_task(**ps: float) -> list[Pair]:
        return [replace(lead("lookup", "eagle", p), task=task) for task, p in ps.items()]

    first = on_tasks("eagle", 1.5, chat=1.6, code=1.4, rewriting=1.1)
    second = on_tasks("lookup", 1.2, chat=1.0, code=1.5, rewriting=1.7)
    rows, plain = [first, second], [over_plain("eagle")]
    assert text_of(rows, [], plain, by_task(chat=0.9, code=0.3, rewriting=0.01)).endswith(
        "By task others are faster: lookup on rewriting (Holm over 3 tests). Also first by task,"
        " which may be chance: lookup on code."
    )
    slower = [first, on_tasks("lookup", 1.2, chat=1.0, code=1.1, rewriting=1.0)]
    assert text_of(slower, [], plain, by_task(chat=0.9, code=0.3)).endswith(
        "It ranks first on each of the 2 tasks."
    )


def test_a_doubtful_run_says_first_that_it_has_no_finding() -> None:
    fast = row("eagle", speedup=Interval(1.5, None, None))
    slow = row("bigram", speedup=Interval(1.2, None, None))
    fast.prompts, fast.doubts = 1, ("plain decoding drifts by 25%", "above gamma + 1")
    slow.doubts = ("plain decoding drifts by 25%",)
    assert text_of([PLAIN, slow, fast]).startswith(
        "No finding, since times are doubtful: plain decoding drifts by 25%; above gamma + 1"
        " (eagle). As measured: eagle ranks first: 1.50 times as fast"
    )
    assert "From 1 prompt, too few to say how sure this is." in text_of([PLAIN, slow, fast])


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
    assert text_of(rows) == "bigram ranks first in alpha, 0.42 [0.39, 0.46]."
    pair = replace(lead("bigram", "unigram", 0.01), rate="alpha")
    assert text_of(rows, [pair]) == (
        "bigram has the highest alpha, 0.42 [0.39, 0.46]: above unigram by 0.30 [0.10, 0.50]"
        " (p 0.01), by Holm over 3 pairs."
    )


def test_a_single_variant_has_no_conclusion() -> None:
    assert conclusion([]) == []
    assert conclusion([SLOW]) == []
    assert conclusion([PLAIN, PLAIN]) == []
