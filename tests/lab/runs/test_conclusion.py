"""The sentence after a comparison says what its tests say."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.lab.runs.conclusion import Finding, finding_of, tasks_line, unreliable
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.pairs import Pair


def row(drafter: str, drafted: int | None = 5, **rates: Interval) -> Any:
    """A row with some rates; `drafted` is None where nothing was decoded."""
    names = ("alpha", "coverage", "speedup", "block_efficiency")
    rates.setdefault("block_efficiency", Interval(1.5, None, None))
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
        trained_on=0,
        control=drafter in ("none", "random"),
    )


def lead(one: str, other: str, p: float) -> Pair:
    return Pair("speedup", one, other, Interval(0.3, 0.1, 0.5), p / 3, p, 12, family=3)


def over_plain(one: str, p: float = 0.001) -> Pair:
    return Pair("speedup", one, "plain decoding", Interval(0.5, 0.2, 0.9), p / 2, p, 12, family=2)


def outcome_of(
    rows: Sequence[Any],
    pairs: Sequence[Pair] = (),
    plain: Sequence[Pair] = (),
    reference: str | None = None,
) -> Finding | None:
    summary: Any = SimpleNamespace(rows=rows, pairs=pairs, over_plain=plain, reference=reference)
    return finding_of(summary)


def found(rows: Sequence[Any], *pairs: Sequence[Pair], reference: str | None = None) -> Finding:
    result = outcome_of(rows, *pairs, reference=reference)
    assert result is not None
    return result


PLAIN = row("none", 0, speedup=Interval(1.0, 1.0, 1.0))
SLOW = row("medusa", speedup=Interval(0.9, 0.8, 0.95))
FAST = row("eagle", speedup=Interval(1.5, 1.2, 1.9), block_efficiency=Interval(2.25, 2, 2.5))
OWN = row("quantized", speedup=Interval(1.9, 1.7, 2.1), block_efficiency=Interval(4.6, 4, 5))


@pytest.mark.parametrize(
    ("rows", "leads", "p", "said", "certain"),
    [
        ([SLOW, FAST], [0.012], 0.001,
         ("eagle is the fastest with 1.50x: faster than plain decoding (p = 0.001); ahead of medusa"
         " (p = 0.012)"), True),
        ([SLOW, FAST], [0.2], 0.001,
         ("eagle ranks first with 1.50x: faster than plain decoding (p = 0.001); its lead over"
         " medusa could be chance (p = 0.2)"), False),
        ([SLOW, FAST], [], 0.001,
         ("eagle ranks first with 1.50x: faster than plain decoding (p = 0.001); its lead over"
         " medusa is not tested"), False),
        ([SLOW, FAST], [0.012], 0.3,
         "eagle ranks first with 1.50x, but that could be chance (p = 0.3)", False),
        ([SLOW, FAST], [0.012], None,
         "eagle ranks first with 1.50x, but that could be chance", False),
        ([FAST], [], 0.01, "eagle has 1.50x: faster than plain decoding (p = 0.01)", True),
        ([SLOW, FAST, OWN], [0.012], 0.3,
         "eagle ranks first with 1.50x, but that could be chance (p = 0.3)", False),
        ([OWN], [], 0.01, "quantized has 1.90x: faster than plain decoding (p = 0.01)", True),
        ([SLOW], [], 0.01, "medusa was not faster than plain decoding: 0.90x", True),
        ([SLOW, row("bigram", speedup=Interval(0.7, None, None))], [], 0.01,
         "no drafter was faster than plain decoding: medusa came nearest, with 0.90x", True),
    ],
)  # fmt: skip
def test_no_sentence_names_a_first_without_its_tests(
    rows: list[Any], leads: list[float], p: float | None, said: str, certain: bool
) -> None:
    pairs = [lead("eagle", "medusa", each) for each in leads]
    plain = [] if p is None else [over_plain("eagle", p), over_plain("quantized", p)]
    outcome = found([PLAIN, *rows], pairs, plain)
    assert outcome.sentence == f"On prompts like these, {said}."
    assert outcome.enough == (None if certain else 24)


def test_each_answer_stands_for_itself() -> None:
    tested = replace(over_plain("eagle", 0.3), difference=Interval(0.5, -0.02, 0.9))
    outcome = found([PLAIN, FAST, SLOW], [], [tested])
    assert outcome.first == "eagle"
    assert outcome.size == "1.50x plain decoding (0.98 to 1.90)"
    assert outcome.chance == "It could be (p = 0.3)"


@pytest.mark.parametrize(
    ("prompts", "family", "said"),
    [
        (1, 2, "1 prompt is too few to tell: use 10 or more"),
        (8, 60, "8 prompts are too few to tell: use 12 or more"),
    ],
)
def test_too_few_prompts_say_how_many_it_takes(prompts: int, family: int, said: str) -> None:
    fast = row("eagle", speedup=Interval(1.5, None, None))
    fast.prompts = prompts
    pair = replace(over_plain("eagle", 1.0), prompts=prompts, family=family)
    outcome = found([PLAIN, fast, SLOW], [], [pair])
    assert outcome.chance == said and "eagle ranks first with 1.50x, but" in outcome.sentence


def test_a_reference_is_told_apart_from_the_others() -> None:
    rows = [
        row("mine", speedup=Interval(1.5, 1.2, 1.9)),
        row("fast", speedup=Interval(1.9, 1.8, 2.0)),
        row("alike", speedup=Interval(1.4, 1.2, 1.9)),
        SLOW,
    ]
    slower = replace(lead("mine", "fast", 0.03), difference=Interval(-0.4, -0.5, -0.3))
    pairs = [slower, lead("mine", "alike", 0.4), lead("mine", "medusa", 0.01)]
    outcome = found(rows, pairs, [over_plain("mine")], reference="mine")
    assert outcome.chance == (
        "Ahead of plain decoding (p = 0.001), medusa (p = 0.01); behind fast (p = 0.03); not told"
        " apart from alike (p = 0.4)"
    )
    assert outcome.sentence.startswith("On prompts like these, mine has 1.50x plain decoding")
    assert outcome_of(rows, pairs, reference="none") is None


def test_tasks_are_named_where_tests_show_that_others_are_faster() -> None:
    by_task = {"chat": 0.9, "code": 0.3, "rewriting": 0.01}
    pairs = [replace(lead("lookup", "eagle", p), task=task) for task, p in by_task.items()]
    assert tasks_line(pairs) == "Faster than it by task: lookup on rewriting (p = 0.01)."
    assert tasks_line(pairs[:2]) == ""


def test_a_busy_machine_takes_away_the_ranking_by_speed_and_nothing_else() -> None:
    fast = row("eagle", speedup=Interval(1.5, 1, 2), block_efficiency=Interval(1.4, 1.3, 1.5))
    slow = row("bigram", speedup=Interval(1.2, 1, 2), block_efficiency=Interval(1.6, 1.5, 1.7))
    fast.doubts, slow.doubts = ("the machine is busy: load 3.0 on 2 cores", "above"), ("busy",)
    tokens = replace(lead("bigram", "eagle", 0.01), rate="block_efficiency")
    outcome = found([PLAIN, fast, slow], [lead("eagle", "bigram", 0.001), tokens])
    assert (outcome.first, outcome.size) == ("bigram", "1.60 tokens per call")
    assert outcome.sentence == (
        "On prompts like these, bigram has the most tokens per call, 1.60: ahead of eagle"
        " (p = 0.01)."
    )
    unsure = found([PLAIN, fast, slow], [replace(tokens, p_holm=0.2)])
    assert "1.60, but its lead over eagle could be chance (p = 0.2)" in unsure.sentence


def test_unreliable_times_name_their_causes_once_and_their_run() -> None:
    one, two, three = (row(name, speedup=Interval(1.5, 1, 2)) for name in ("a", "b", "c"))
    one.doubts = two.doubts = ("the machine is busy",)
    assert unreliable({"": [PLAIN, one, two]}) == (
        "Timings are unreliable (the machine is busy); tokens per call are not affected."
    )
    three.doubts = ("it drifts",)
    assert "(a, b in T = 0: the machine is busy; c in T = 0, T = 1: it drifts)" in unreliable(
        {"T = 0": [one, two, three], "T = 1": [three]}
    )
    assert unreliable({"": [PLAIN, FAST]}) == ""


def test_without_times_alpha_decides() -> None:
    rows = [
        row("none", None, alpha=Interval(0.0, 0.0, 0.0), coverage=Interval(0.0, 0.0, 0.0)),
        row("bigram", None, alpha=Interval(0.42, 0.39, 0.46), coverage=Interval(1.0, 1.0, 1.0)),
        row("unigram", None, alpha=Interval(0.06, 0.05, 0.07)),
    ]
    pair = replace(lead("bigram", "unigram", 0.01), rate="alpha")
    assert found(rows, [pair]).sentence == (
        "On prompts like these, bigram has the highest alpha, 0.42: ahead of unigram (p = 0.01)."
    )
    assert "0.42, but its lead over unigram is not tested" in found(rows).sentence
