"""A run's folder: measurements are saved at once, and an unfinished run can be resumed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.lab.measurement import Measurement
from outrider.lab.store import FACTS, LINES, RunFolder, gather, load, unfinished
from outrider.lab.summary import Summary
from outrider.verifiers.lenient import Lenient

Go = Callable[..., RunFolder]
TIMES = ("draft", "score", "verify", "seconds", "plain_seconds", "plain_call")


def timeless(measurements: Any) -> Any:
    """Returns the measurements as plain values, without seconds."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if key not in TIMES}
        return [strip(item) for item in value] if isinstance(value, list | tuple) else value

    return strip([item.plain() for item in measurements])


def test_what_is_read_is_what_was_measured(run_in: Go, tmp_path: Path) -> None:
    run = run_in(tmp_path, temperature=1.0).run
    again = load(tmp_path)
    assert again.measurements == run.measurements
    assert again.finished
    assert again.drafters == ["none", "lookup", "bigram"]


@pytest.mark.parametrize("stop_after", [1, 8, 15, 22, 29])
def test_a_run_that_broke_off_goes_on_and_gives_the_same(
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
        clocks = {"tokens_per_second": None, "speedup": None}
        assert {**one.rates, **clocks} == {**other.rates, **clocks}
        assert (one.depths, one.counts, one.categories) == (
            other.depths,
            other.counts,
            other.categories,
        )


def test_a_line_cut_off_by_the_end_of_the_process_is_measured_again(
    run_in: Go, tmp_path: Path
) -> None:
    run_in(tmp_path, stop_after=8)
    lines = tmp_path / LINES
    lines.write_text(lines.read_text()[:-30])
    assert len(load(tmp_path).measurements) == 7
    assert run_in(tmp_path, resume=True).run.finished
    assert load(tmp_path).finished


def test_a_config_that_does_not_match_is_refused_by_name(run_in: Go, tmp_path: Path) -> None:
    run_in(tmp_path, stop_after=4)
    before = (tmp_path / LINES).read_text()
    with pytest.raises(ConfigError, match="resume: gamma is 4 now, and was 3 in"):
        run_in(tmp_path, gamma=4, resume=True)
    with pytest.raises(ConfigError, match=r"resume: (lossless\.none|verifier)"):
        run_in(tmp_path, verifier=Lenient(0.5), resume=True)
    with pytest.raises(ConfigError, match="resume=False: expected true, since"):
        run_in(tmp_path)
    assert (tmp_path / LINES).read_text() == before


def test_damage_is_named_by_file_and_line(run_in: Go, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected the folder of a run, with run\.json in it"):
        load(tmp_path)
    run_in(tmp_path, stop_after=3)
    lines = (tmp_path / LINES).read_text().splitlines(keepends=True)
    for wrong in ("{oops}\n", '{"prompt": 3}\n'):
        (tmp_path / LINES).write_text(lines[0] + wrong + lines[2])
        with pytest.raises(ConfigError, match=r"measurements\.jsonl, line 2: damaged"):
            load(tmp_path)
    (tmp_path / FACTS).write_text("[]")
    with pytest.raises(ConfigError, match=r"run\.json: damaged"):
        load(tmp_path)


def test_runs_are_gathered_from_below(run_in: Go, tmp_path: Path) -> None:
    run_in(tmp_path / "sweep" / "0", protocol="overlap")
    run_in(tmp_path / "sweep" / "1", gamma=2, stop_after=2)
    runs = gather([tmp_path / "sweep"])
    assert [run.facts["settings"]["gamma"] for run in runs] == [3, 2]
    assert [run.finished for run in runs] == [True, False]
    with pytest.raises(ConfigError, match="expected a folder that exists"):
        gather([tmp_path / "gone"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="expected a run of `outrider compare` in it"):
        gather([tmp_path / "empty"])


def test_the_newest_run_that_broke_off_is_found(run_in: Go, tmp_path: Path) -> None:
    assert unfinished(tmp_path) is None
    run_in(tmp_path / "1", protocol="overlap")
    assert unfinished(tmp_path) is None
    run_in(tmp_path / "2", stop_after=2)
    run_in(tmp_path / "3", stop_after=3)
    (tmp_path / "4").mkdir()
    (tmp_path / "4" / FACTS).write_text("damaged")
    assert unfinished(tmp_path) == tmp_path / "3"


def test_a_measurement_comes_back_from_json(run_in: Go, tmp_path: Path) -> None:
    for measurement in run_in(tmp_path, temperature=1.0).measurements:
        assert Measurement.read(json.loads(json.dumps(measurement.plain()))) == measurement
        assert measurement.protocol == ("overlap" if measurement.overlap else "decode")
        assert Measurement.read(replace(measurement, category="x").plain()).category == "x"
