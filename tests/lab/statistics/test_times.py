"""Tests of the times that readers wait, and of the checks of a run's times."""

import pytest

from outrider.lab.measuring.measurement import Decoding, Step
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.times import drift_of, latency, timing_warnings


def text(call: float, *repeats: float) -> Decoding:
    return Decoding((), 1.0, call, call, repeats, repeats)


def rates(speedup: float, tokens: float) -> dict[str, Interval | None]:
    return {
        "speedup": Interval(speedup, None, None),
        "block_efficiency": Interval(tokens, None, None),
    }


def test_a_baseline_that_drifts_within_a_run() -> None:
    assert drift_of([text(1.0)] * 6) == 1
    assert drift_of([text(1.0)] * 4 + [text(1.5)] * 2) == 1.5
    assert drift_of([text(1.0), text(1.5)]) == 1  # two questions may differ by themselves
    assert drift_of([text(1.0, 1.0, 1.2, 1.1)] * 3) == 1.2
    assert drift_of([text(1.0, 1.0, 1.01, 1.0)] * 3) == 1.01


def test_a_speedup_above_the_tokens_of_a_call_is_doubted() -> None:
    assert timing_warnings(rates(1.5, 2.0), [1.4, 1.6], 5, 1.0) == ()
    assert timing_warnings(rates(2.5, 2.0), [2.5, 2.5], 5, 1.0) == (
        "the speedup is above the tokens per call",
    )
    assert timing_warnings(rates(1.5, 2.0), [1.2, 8.0], 5, 1.0) == (
        "above gamma + 1 on 1 of 2 prompts",
    )
    assert timing_warnings(rates(1.5, 2.0), [1.4, 1.6], 5, 1.25) == (
        "plain decoding drifts by 25%",
    )
    assert timing_warnings({"speedup": None, "block_efficiency": None}, [], 5, 1.0) == ()


def step(tokens: int, seconds: float) -> Step:
    return Step((7,) * tokens, (), (), 3, 2, 1, (), (), seconds, 0.0, 0.0, None)


def timed(*steps: Step) -> Decoding:
    return Decoding(steps, sum(step.draft for step in steps), 1.0, 1.0)


def test_times_by_hand() -> None:
    times = latency([timed(step(2, 0.5), step(3, 0.1), step(1, 0.3)), timed(step(1, 0.7))])
    assert times["time_to_first_token"]["mean"] == pytest.approx(0.6)
    assert times["time_to_first_token"]["p50"] == pytest.approx(0.6)
    assert times["time_to_first_token"]["p99"] == pytest.approx(0.698)
    assert times["time_per_output_token"]["mean"] == pytest.approx(0.4 / 5)
    assert times["time_per_output_token"]["n"] == 1  # a text of one token has none
    assert times["inter_token_latency"]["p90"] == pytest.approx(0.28)
    assert times["request_latency"]["mean"] == pytest.approx(0.8)


def test_times_that_no_text_has_are_left_out() -> None:
    assert latency([]) == {}
    assert set(latency([timed(step(1, 0.1))])) == {"time_to_first_token", "request_latency"}
