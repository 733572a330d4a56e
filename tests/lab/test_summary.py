"""Every rate is a ratio of sums over prompts; what is not finished does not count."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.lab.measurement import Step
from outrider.lab.store import Run
from outrider.lab.summary import RATES, Summary, _survival
from outrider.lab.trial import Settings


def test_rates_are_ratios_of_sums(run_in: Callable[..., Any], tmp_path: Path) -> None:
    run = run_in(tmp_path, temperature=1.0).run
    summary = Summary(run)
    assert summary.prompts == ["a", "b", "c", "d"]
    for row in summary.rows:
        mine = [each for each in run.measurements if each.drafter == row.drafter]
        laws = [each.overlap for each in mine if each.overlap]
        texts = [each.decoding for each in mine if each.decoding]
        assert set(row.rates) == set(RATES)
        alpha = row.rates["alpha"]
        assert alpha is not None and alpha.low is not None and alpha.high is not None
        expected = sum(law.beta[0] for law in laws) / sum(law.prefixes[0] for law in laws)
        assert alpha.value == pytest.approx(expected)
        assert alpha.low <= alpha.value <= alpha.high
        assert row.counts is not None and row.seconds is not None
        assert row.counts.rounds == sum(len(text.steps) for text in texts)
        assert row.counts.emitted == sum(len(s.tokens) for text in texts for s in text.steps)
        for name in ("alpha_tested", "acceptance_rate", "block_efficiency"):
            found = row.rates[name]
            assert (found.value if found else None) == pytest.approx(getattr(row.counts, name))
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


def step(accepted: int, drafted: int, *, rejected: bool, stop: str | None = None) -> Step:
    tested = accepted + rejected
    return Step((), (), (), drafted, tested, accepted, 0.0, 0.0, 0.0, stop)


def test_a_round_that_a_stop_cut_is_censored() -> None:
    full = [step(3, 3, rejected=False)] * 6
    assert _survival(full, 3) == [2, 3, 4]
    # Cut after one or two tokens, rounds that go on in every other case still do.
    cut = [
        step(1, 1, rejected=False, stop="max_new_tokens"),
        step(2, 2, rejected=False, stop="eos"),
    ]
    assert _survival([*full, *cut], 3) == [2, 3, 4]
    # A rejection, or a draft that ended by itself, is an end.
    assert _survival([*full, *[step(1, 3, rejected=True)] * 6], 3) == [2, 2.5, 3]
    assert _survival([*full, *[step(1, 1, rejected=False)] * 6], 3) == [2, 2.5, 3]
    last = step(1, 3, rejected=True, stop="max_new_tokens")
    assert _survival([*full, *[last] * 6], 3) == [2, 2.5, 3]


def test_simulated_rounds_cut_at_random_give_the_known_tokens() -> None:
    """Geometric acceptance of .7, gamma 5, every text cut after 12 tokens."""
    import random

    draw = random.Random(0)
    steps: list[Step] = []
    for _ in range(4000):
        left = 12
        while left:
            depth = min(5, left - 1)
            accepted = 0
            while accepted < depth and draw.random() < 0.7:
                accepted += 1
            left -= accepted + 1
            stop = None if left else "max_new_tokens"
            steps.append(step(accepted, depth, rejected=accepted < depth, stop=stop))
    expected = [sum(0.7**i for i in range(gamma + 1)) for gamma in range(1, 6)]
    assert _survival(steps, 5) == pytest.approx(expected, rel=0.02)
    naive = sum(each.accepted + 1 for each in steps) / len(steps)
    assert naive < expected[-1] * 0.95  # what censoring is for


def test_settings_of_a_run_are_those_of_decode() -> None:
    assert Settings().gamma == 5


def test_a_run_without_measurements_has_no_rows(run_in: Callable[..., Any], tmp_path: Path) -> None:
    run = run_in(tmp_path, stop_after=1).run
    empty = Summary(replace(run, measurements=()))
    assert isinstance(empty.run, Run)
    assert (empty.rows, empty.pairs) == ([], [])
