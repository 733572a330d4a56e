"""What a target call costs, and which drafters no other beats."""

from dataclasses import replace

import pytest

from outrider.extras.view.costs import round_cost, score_times
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary


def test_calls_are_timed_by_their_scored_rows(whole_run: Run) -> None:
    slow = []
    for measurement in whole_run.measurements:
        decoding = measurement.decoding
        if decoding is not None:
            steps = tuple(replace(step, score=0.001 * step.drafted) for step in decoding.steps)
            measurement = replace(measurement, decoding=replace(decoding, steps=steps))
        slow.append(measurement)
    times = score_times(replace(whole_run, measurements=tuple(slow)))
    assert set(times) == {"none", "lookup", "bigram"}
    for curve in times.values():
        assert list(curve) == sorted(curve)
        for rows, milliseconds in curve.items():
            assert milliseconds == pytest.approx(rows - 1)


def test_a_round_costs_its_drafting_its_call_and_the_rest(whole_run: Run) -> None:
    rows = {row.drafter: row for row in Summary(whole_run).rows}
    assert round_cost(rows["none"]) is None
    row = rows["bigram"]
    prediction, counts = row.prediction, row.counts
    drafted = prediction.cost_ratio * counts.drafted / counts.rounds
    expected = drafted + prediction.score_ratio + prediction.overhead
    assert round_cost(row) == pytest.approx(expected)
