"""A run's folder: measurements are saved at once, and an unfinished run can be resumed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tiny.comparisons import timeless

from outrider import ConfigError
from outrider.lab.runs.conclusion import conclusion_of
from outrider.lab.runs.files import FACTS, LINES
from outrider.lab.runs.run import Run, load
from outrider.lab.runs.store import RunFolder, unfinished
from outrider.lab.runs.summary import Summary

Go = Callable[..., RunFolder]


@pytest.mark.parametrize("stop_after", [1, 15, 29])
def test_a_broken_off_run_resumes_to_the_same_result(
    run_in: Go, tmp_path: Path, stop_after: int
) -> None:
    whole = run_in(tmp_path / "whole", temperature=1.0)
    run_in(tmp_path / "broken", temperature=1.0, stop_after=stop_after)
    assert not load(tmp_path / "broken").finished
    resumed = run_in(tmp_path / "broken", temperature=1.0, resume=True)
    assert timeless(resumed.measurements) == timeless(whole.measurements)
    assert load(tmp_path / "broken").finished
    rows = [Summary(run.run).rows for run in (whole, resumed)]
    for one, other in zip(*rows, strict=True):
        clocks = {"tokens_per_second": None, "speedup": None, "speedup_median": None}
        assert {**one.rates, **clocks} == {**other.rates, **clocks}
        assert (one.depths, one.counts, one.categories) == (
            other.depths,
            other.counts,
            other.categories,
        )


def test_a_resumed_run_deletes_nothing(run_in: Go, tmp_path: Path) -> None:
    run_in(tmp_path, stop_after=8)  # two questions of three drafters, and two of the third
    before = (tmp_path / LINES).read_text()
    resumed = run_in(tmp_path, resume=True, stop_after=1)
    assert (tmp_path / LINES).read_text().startswith(before)
    assert len(resumed.measurements) == 7
    again = load(tmp_path).measurements
    assert len(again) == 8
    assert resumed.measurements[-1] in again  # the later one counts


def test_other_code_or_weights_are_another_run(run_in: Go, tmp_path: Path) -> None:
    facts = run_in(tmp_path, stop_after=2).facts
    for identity, line in (
        ({"echo": {"drafter": {"code": {"echo": {"source": "b"}}}}}, r"resume: echo\.drafter"),
        ({"target": {"fingerprint": "b"}}, r"resume: target\.fingerprint is 'b' now, and was None"),
    ):
        with pytest.raises(ConfigError, match=line):
            RunFolder(tmp_path, {**facts, "identity": identity}, resume=True)


@pytest.fixture
def failed_run(run_in: Go, tmp_path: Path) -> Callable[[], Run]:
    """Returns what reads a run whose drafter `lookup` failed at its second question."""
    whole = run_in(tmp_path, temperature=1.0)
    own = [m for m in whole.measurements if m.drafter == "lookup"]
    kept = [m for m in whole.measurements if m.drafter != "lookup" or m is own[0]]
    error = replace(own[1], overlap=None, error="drafter PromptLookup raised KeyError: 'a'")
    lines = (json.dumps(item.plain()) + "\n" for item in [*kept[:4], error, *kept[4:]])
    (tmp_path / LINES).write_text("".join(lines))
    return lambda: load(tmp_path)


def test_a_drafter_that_failed_continues_at_its_question(
    run_in: Go, failed_run: Callable[[], Run], tmp_path: Path
) -> None:
    before = failed_run()
    resumed = run_in(tmp_path, temperature=1.0, resume=True).run
    assert failed_run() == resumed
    assert resumed.finished and resumed.drafters == ["none", "lookup", "bigram"]
    assert all(m in resumed.measurements for m in before.measurements)
    assert conclusion_of(Summary(resumed))[0] == "lookup was timed later than the others."


def test_a_drafter_whose_code_has_changed_is_measured_anew(
    failed_run: Callable[[], Run], tmp_path: Path
) -> None:
    before = failed_run()
    facts = {**before.facts, "identity": {"lookup": {"drafter": {"code": {"mine": "b"}}}}}
    with RunFolder(tmp_path, facts, resume=True) as folder:
        assert folder.changed == ["lookup"]
        assert tuple(folder.measurements) == before.measurements
    assert not any('"lookup"' in line for line in (tmp_path / LINES).read_text().splitlines())
    # No figures of a finished run are given up.
    (tmp_path / LINES).write_text("")
    with RunFolder(tmp_path, facts, resume=True) as folder:
        for drafter in before.facts["drafters"]:
            for measurement in (m for m in before.measurements if m.drafter == "none"):
                folder.add(replace(measurement, drafter=drafter))
        assert folder.run.finished
    with pytest.raises(ConfigError, match=r"resume: lookup\.drafter"):
        RunFolder(tmp_path, {**facts, "identity": {}}, resume=True)


def test_each_start_of_a_run_is_recorded(run_in: Go, tmp_path: Path) -> None:
    facts = run_in(tmp_path, stop_after=2).facts
    for date in ("monday", "tuesday"):
        with RunFolder(tmp_path, {**facts, "starts": [{"date": date}]}, resume=True):
            pass
    assert load(tmp_path).facts["starts"] == [{"date": "monday"}, {"date": "tuesday"}]


def test_a_process_with_nothing_to_measure_leaves_the_loads_alone(
    run_in: Go, tmp_path: Path
) -> None:
    run = run_in(tmp_path)
    facts = run.facts
    for load_of_machine in (0.5, 9.0):  # as `compare` does, and as resuming a sweep does
        started = {**facts, "starts": [{"load": load_of_machine, "cores": 2}]}
        with RunFolder(tmp_path, started, resume=True) as folder:
            folder.end(load_of_machine)
    assert "ends" not in load(tmp_path).facts
    assert load(tmp_path).facts["starts"] == facts.get("starts", [])
    with RunFolder(tmp_path / "new", {**facts, "starts": []}, resume=False) as folder:
        folder.add(run.run.measurements[0])
        folder.end(1.5)
    assert load(tmp_path / "new").facts["ends"] == [{"load": 1.5}]


def test_a_fact_that_is_known_late_is_compared_as_well(run_in: Go, tmp_path: Path) -> None:
    facts = run_in(tmp_path, stop_after=2).facts
    with RunFolder(tmp_path, facts, resume=True) as folder:
        folder.confirm("questions_sha256", "a")
    with (
        pytest.raises(ConfigError, match="resume: questions_sha256 is 'b' now, and was 'a'"),
        RunFolder(tmp_path, facts, resume=True) as folder,
    ):
        folder.confirm("questions_sha256", "b")
    assert load(tmp_path).facts["questions_sha256"] == "a"


def test_a_run_belongs_to_one_process_at_a_time(run_in: Go, tmp_path: Path) -> None:
    facts = run_in(tmp_path / "run", stop_after=2).facts
    with RunFolder(tmp_path / "run", facts, resume=True):
        with pytest.raises(ConfigError, match="another process writes to this run"):
            RunFolder(tmp_path / "run", facts, resume=True)
        assert unfinished(tmp_path) is None
    assert unfinished(tmp_path) == tmp_path / "run"


def test_a_run_that_was_refused_at_its_start_leaves_nothing_to_resume(
    run_in: Go, tmp_path: Path
) -> None:
    facts = run_in(tmp_path / "run", stop_after=2).facts
    (tmp_path / "new").mkdir()
    with (
        pytest.raises(ConfigError, match="prompt 3"),
        RunFolder(tmp_path / "new", facts, resume=False),
    ):
        raise ConfigError("prompt 3 is empty")
    assert not (tmp_path / "new" / FACTS).exists()
    # Killed while the target writes, a run is there to resume.
    with pytest.raises(KeyboardInterrupt), RunFolder(tmp_path / "new", facts, resume=False):
        raise KeyboardInterrupt
    assert load(tmp_path / "new").measurements == ()


def test_the_newest_run_that_broke_off_is_found(run_in: Go, tmp_path: Path) -> None:
    assert unfinished(tmp_path) is None
    run_in(tmp_path / "1", protocol="overlap")
    assert unfinished(tmp_path) is None
    run_in(tmp_path / "2", stop_after=2)
    run_in(tmp_path / "3", stop_after=3)
    (tmp_path / "4").mkdir()
    (tmp_path / "4" / FACTS).write_text("damaged")
    assert unfinished(tmp_path) == tmp_path / "3"
