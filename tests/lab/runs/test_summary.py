"""Every rate is a ratio of sums over prompts; unfinished prompts do not count."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider import Drafter
from outrider.drafters.ngram import bigram
from outrider.drafters.random import Random
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.rates import RATES


def test_rates_are_ratios_of_sums(run_in: Callable[..., Any], tmp_path: Path) -> None:
    run = run_in(tmp_path, temperature=1.0).run
    summary = Summary(run)
    assert summary.prompts == ["a", "b", "c", "d"]
    for row in summary.rows:
        own = [m for m in run.measurements if m.drafter == row.drafter]
        overlaps = [m.overlap for m in own if m.overlap]
        texts = [m.decoding for m in own if m.decoding]
        assert set(row.rates) == {*RATES, "speedup_median"}
        alpha = row.rates["alpha"]
        assert alpha is not None
        expected = sum(sums.beta[0] for sums in overlaps) / sum(
            sums.prefixes[0] for sums in overlaps
        )
        assert alpha.value == pytest.approx(expected)
        assert alpha.low is None  # there are four prompts, and five are the fewest
        assert row.counts is not None and row.seconds is not None
        assert row.counts.rounds == sum(len(text.steps) for text in texts)
        assert row.counts.emitted == sum(len(s.tokens) for text in texts for s in text.steps)
        for name in ("alpha_tested", "acceptance_rate"):
            rate = row.rates[name]
            assert (rate.value if rate else None) == pytest.approx(getattr(row.counts, name))
        speed = row.rates["tokens_per_second"]
        assert speed.value == pytest.approx(row.counts.emitted / row.seconds["total"])
        speedup = row.rates["speedup"]
        assert speedup is not None
        plain = sum(text.plain_seconds * text.counts.emitted for text in texts)
        assert speedup.value == pytest.approx(plain / row.seconds["total"])
        if row.drafter == "none":
            assert speedup.value == pytest.approx(1)
        assert set(row.categories) == {"chat", "code"}
        assert row.plain()["alpha"] == alpha.value


def test_a_prompt_that_one_drafter_has_not_done_counts_for_none(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    summary = Summary(run_in(tmp_path, protocol="decode", stop_after=8).run)
    assert summary.prompts == ["a"]  # two turns with three drafters, and two of the next prompt
    assert all(row.counts and row.counts.rounds for row in summary.rows)
    assert Summary(run_in(tmp_path / "b", protocol="decode", stop_after=5).run).rows == []


def test_pairs_are_a_family_for_each_rate_without_the_controls(
    run_in: Callable[..., Any], drafters: dict[str, Drafter], tmp_path: Path
) -> None:
    drafters["random"] = Random()
    drafters["trigram"] = bigram(order=3)
    pairs = Summary(run_in(tmp_path).run).pairs
    assert {(pair.one, pair.other) for pair in pairs} == {
        ("lookup", "bigram"),
        ("lookup", "trigram"),
        ("bigram", "trigram"),
    }
    assert {pair.rate for pair in pairs} == {"alpha", "block_efficiency", "speedup"}
    assert {pair.family for pair in pairs} == {3}
    for pair in pairs:
        assert 1 / 8 <= pair.p <= pair.p_holm <= 1  # 2 of 2^4 exchanges
        assert pair.prompts == 4


def test_a_run_has_its_reference_and_tests_against_plain_decoding(whole_run: Run) -> None:
    mine = Summary(replace(whole_run, facts={**whole_run.facts, "reference": "bigram"}))
    assert [(pair.rate, pair.one, pair.other) for pair in mine.pairs] == [
        (rate, "bigram", "lookup") for rate in ("alpha", "block_efficiency", "speedup")
    ]
    assert {pair.one for pair in mine.over_plain} == {"lookup", "bigram"}
    for pair in mine.over_plain:
        speedup = mine.rows[mine.run.drafters.index(pair.one)].rates["speedup"]
        assert pair.difference.value == pytest.approx(speedup.value - 1)
        assert pair.family == 2 and pair.other == "plain decoding"
    assert mine.task_pairs == []  # two prompts of a task have no interval


def test_a_busy_machine_is_a_doubt(whole_run: Run) -> None:
    def why(start: float, end: float) -> set[tuple[str, ...]]:
        states = {"starts": [{"cores": 2, "load": start}], "ends": [{"load": end}]}
        rows = Summary(replace(whole_run, facts={**whole_run.facts, **states})).rows
        return {row.doubts[-1:] for row in rows if row.drafter != "none"}

    assert why(0.4, 7.25) == why(7.25, 1.0) == {("the machine is busy: load 7.2 on 2 cores",)}
    assert ("the machine is busy: load 2.0 on 2 cores",) not in why(2.0, 2.0)


def test_the_categories_of_mt_bench_are_one_task_beside_others(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    run = run_in(tmp_path, protocol="decode").run

    def tasks_of(categories: dict[str, str]) -> dict[str, list[str]]:
        renamed = [replace(m, category=categories[m.prompt]) for m in run.measurements]
        summary = Summary(replace(run, measurements=tuple(renamed)))
        assert set(summary.rows[0].tasks) == set(summary.tasks)
        assert set(summary.rows[0].categories) == set(categories.values())
        return summary.tasks

    mt_bench = {"a": "writing", "b": "stem", "c": "math", "d": "math"}
    assert tasks_of(mt_bench) == {"writing": ["a"], "stem": ["b"], "math": ["c", "d"]}
    alone = {"a": "extraction", "b": "chat", "c": "chat", "d": "qa"}
    assert tasks_of(alone) == {"extraction": ["a"], "chat": ["b", "c"], "qa": ["d"]}
    assert tasks_of(mt_bench | {"d": "qa"}) == {"mt_bench": ["a", "b", "c"], "qa": ["d"]}
