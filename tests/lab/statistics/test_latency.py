"""Latencies are those that serving engines report."""

import pytest

from outrider.lab.measuring.measurement import Decoding, Step
from outrider.lab.statistics.latency import latency


def step(tokens: int, seconds: float) -> Step:
    return Step((7,) * tokens, (), (), 3, 2, 1, (), (), seconds, 0.0, 0.0, None)


def text(*steps: Step) -> Decoding:
    return Decoding(steps, sum(step.draft for step in steps), 1.0, 1.0)


def test_times_by_hand() -> None:
    times = latency([text(step(2, 0.5), step(3, 0.1), step(1, 0.3)), text(step(1, 0.7))])
    assert times["time_to_first_token"]["mean"] == pytest.approx(0.6)
    assert times["time_to_first_token"]["p50"] == pytest.approx(0.6)
    assert times["time_to_first_token"]["p99"] == pytest.approx(0.698)
    assert times["time_per_output_token"]["mean"] == pytest.approx(0.4 / 5)
    assert times["time_per_output_token"]["n"] == 1  # a text of one token has none
    assert times["inter_token_latency"]["p90"] == pytest.approx(0.28)
    assert times["request_latency"]["mean"] == pytest.approx(0.8)


def test_times_that_no_text_has_are_left_out() -> None:
    assert latency([]) == {}
    assert set(latency([text(step(1, 0.1))])) == {"time_to_first_token", "request_latency"}
