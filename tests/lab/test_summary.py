"""Every rate is a ratio of sums over prompts; unfinished prompts do not count."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.lab.store import Run
from outrider.lab.summary import RATIOS, Summary
from outrider.lab.trial import Settings


def test_rates_are_ratios_of_sums(run_in: Callable[..., Any], tmp_path: Path) -> None:
    run = run_in(tmp_path, temperature=1.0).run
    summary = Summary(run)
    assert summary.prompts == ["a", "b", "c", "d"]
    for row in summary.rows:
        own = [m for m in run.measurements if m.drafter == row.drafter]
        overlaps = [m.overlap for m in own if m.overlap]
        texts = [m.decoding for m in own if m.decoding]
        assert set(row.rates) == {*RATIOS, "speedup"}
        alpha = row.rates["alpha"]
        assert alpha is not None and alpha.low is not None and alpha.high is not None
        expected = sum(sums.beta[0] for sums in overlaps) / sum(
            sums.prefixes[0] for sums in overlaps
        )
        assert alpha.value == pytest.approx(expected)
        assert alpha.low <= alpha.value <= alpha.high
        assert row.counts is not None and row.seconds is not None
        assert row.counts.rounds == sum(len(text.steps) for text in texts)
        assert row.counts.emitted == sum(len(s.tokens) for text in texts for s in text.steps)
        for name in ("alpha_tested", "acceptance_rate", "block_efficiency"):
            rate = row.rates[name]
            assert (rate.value if rate else None) == pytest.approx(getattr(row.counts, name))
        speed = row.rates["tokens_per_second"]
        assert speed is not None
        assert speed.value == pytest.approx(row.counts.emitted / row.seconds["total"])
        speedup = row.rates["speedup"]
        assert speedup is not None
        if row.drafter == "none":
            assert speedup.value == pytest.approx(1)
        assert set(row.categories) == {"chat", "code"}
        assert row.plain()["alpha_low"] == alpha.low


def test_a_prompt_that_one_drafter_has_not_done_counts_for_none(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    summary = Summary(run_in(tmp_path, protocol="decode", stop_after=8).run)
    assert summary.prompts == ["a"]  # two turns with three drafters, and two of the next prompt
    assert all(row.counts and row.counts.rounds for row in summary.rows)
    assert Summary(run_in(tmp_path / "b", protocol="decode", stop_after=5).run).rows == []


def test_every_pair_is_compared_on_the_same_prompts(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    pairs = Summary(run_in(tmp_path).run).pairs
    named = [(pair.one, pair.other) for pair in pairs if pair.rate == "alpha"]
    assert named == [("none", "lookup"), ("none", "bigram"), ("lookup", "bigram")]
    for pair in pairs:
        assert pair.p <= pair.p_holm <= 1
        assert pair.difference.low is not None and pair.difference.high is not None
        assert pair.difference.low <= pair.difference.value <= pair.difference.high


def test_settings_of_a_run_are_those_of_decode() -> None:
    assert Settings().gamma == 5


def test_a_run_without_measurements_has_no_rows(run_in: Callable[..., Any], tmp_path: Path) -> None:
    run = run_in(tmp_path, stop_after=1).run
    empty = Summary(replace(run, measurements=()))
    assert isinstance(empty.run, Run)
    assert (empty.rows, empty.pairs) == ([], [])
