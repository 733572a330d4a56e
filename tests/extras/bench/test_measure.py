"""Speeds and ratios match a hand calculation, and a report says where texts differ."""

from typing import Any

import pytest

from outrider.extras.bench.measure import Run, differences, measure_runs, speed, speed_ratio
from outrider.lab.measuring.text_differences import Difference


class Fake:
    """A worker that writes given texts, and logs the questions."""

    def __init__(self, texts: list[list[int]], seconds: float, log: list[Any], name: str) -> None:
        self.texts, self.seconds, self.log, self.name = texts, seconds, log, name

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if question["ask"] == "gap":
            self.log.append(question)
            return {"gap": 0.25}
        self.log.append((self.name, question["ids"], question["max_new_tokens"]))
        return {"tokens": self.texts[question["ids"][0]], "seconds": self.seconds}


def test_all_workers_write_all_prompts_and_go_first_in_turn() -> None:
    log: list[Any] = []
    texts = [[1, 2], [3]]
    workers: Any = {name: Fake(texts, 1.0, log, name) for name in ("a", "b")}
    runs = list(measure_runs(workers, [[0], [1]], repeats=2, max_new_tokens=9))
    assert log[:2] == [("a", [0], 8), ("b", [0], 8)]  # the warm-up does not count
    order = [(name, ids[0]) for name, ids, _ in log[2:]]
    assert order == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("b", 0), ("a", 0), ("a", 1), ("b", 1)]
    assert {limit for *_, limit in log[2:]} == {9}
    assert [(run.entrant, run.prompt) for run in runs] == order
    assert [run.repeat for run in runs] == [0] * 4 + [1] * 4


def runs(name: str, times: dict[int, list[float]], count: int) -> list[Run]:
    return [
        Run(repeat, prompt, name, [7] * count, seconds)
        for prompt, repeats in times.items()
        for repeat, seconds in enumerate(repeats)
    ]


def test_speed_and_ratio_take_medians_over_repeats() -> None:
    slow = runs("slow", {0: [4.0, 9.0, 4.0], 1: [2.0, 2.0, 1.0]}, count=12)
    fast = runs("fast", {0: [2.0, 2.0, 2.0], 1: [1.0, 5.0, 1.0]}, count=12)
    assert speed(slow + fast, "slow") == pytest.approx(24 / 6)
    assert speed(slow + fast, "fast") == pytest.approx(24 / 3)
    ratio = speed_ratio(slow + fast, "fast", "slow")
    assert ratio is not None and ratio.value == pytest.approx(2.0)
    assert (ratio.low, ratio.high) == (None, None)  # two prompts do not show a spread


def test_decoding_alone_is_compared_where_both_report_it() -> None:
    def told(name: str, decoding: tuple[int, float] | None) -> list[Run]:
        return [Run(0, prompt, name, [7] * 9, 4.0, decoding=decoding) for prompt in (0, 1)]

    some = [*told("slow", (8, 4.0)), *told("fast", (6, 1.0)), *told("silent", None)]
    assert speed(some, "fast", alone=True) == pytest.approx(6.0)
    assert speed(some, "silent", alone=True) is None
    ratio = speed_ratio(some, "fast", "slow", alone=True)
    assert ratio is not None and ratio.value == pytest.approx(3.0)
    assert speed_ratio(some, "fast", "silent", alone=True) is None


def test_a_difference_is_found_at_its_first_token() -> None:
    log: list[Any] = []
    judge: Any = Fake([], 0, log, "judge")
    every = [
        Run(0, 0, "outrider plain", [1, 2, 3], 1.0),
        Run(0, 0, "peer", [1, 5, 3], 1.0),
        Run(1, 0, "peer", [1, 5, 3], 1.0),
        Run(0, 0, "short", [1, 2], 1.0),
        Run(0, 0, "same", [1, 2, 3], 1.0),
    ]
    results = differences(every, [[8, 9]], judge)
    assert results == [("peer", Difference(0, 1, 0.25)), ("short", Difference(0, 2, None))]
    assert log == [{"ask": "gap", "ids": [8, 9, 1], "one": 5, "other": 2}]
