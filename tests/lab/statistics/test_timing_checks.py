"""Times that can't be trusted are reported."""

from outrider.lab.measuring.machine import busy
from outrider.lab.measuring.measurement import Decoding
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.timing_checks import drift_of, timing_warnings


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


def test_more_to_do_than_cores_is_busy() -> None:
    assert busy(2.0, 2) == busy(2.5, 2) == busy(None, 2) == busy(9.0, None) == ""
    assert busy(2.6, 2) == "the machine is busy: load 2.6 on 2 cores"
    assert busy(1.3, 1) == "the machine is busy: load 1.3 on 1 core"
