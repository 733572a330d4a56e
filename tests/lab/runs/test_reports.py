"""Reports follow a run, and one that fails does not end it."""

from pathlib import Path
from typing import Any

from outrider.lab.runs.report import Report, Reports


class Diary(Report):
    """Writes down what it is told, and fails at one of it."""

    def __init__(self, fails_at: str | None = None) -> None:
        self.told: list[str] = []
        self.fails_at = fails_at

    def note(self, what: str) -> None:
        self.told.append(what)
        if what == self.fails_at:
            raise ZeroDivisionError("oh")

    def begin(self, run: Any) -> None:
        self.note("begin")

    def add(self, measurement: Any) -> None:
        self.note(f"add {measurement}")

    def end(self, summaries: Any, folder: Path) -> tuple[Path, ...]:
        self.note("end")
        return (folder / "diary.txt",)


def test_a_report_that_fails_is_told_nothing_more(tmp_path: Path, capsys: Any) -> None:
    whole, broken = Diary(), Diary(fails_at="add 1")
    reports = Reports({"broken": broken, "whole": whole, "silent": Report()})
    run: Any = None
    reports.begin(run)
    for measurement in (1, 2):
        reports.add(measurement)  # type: ignore[arg-type]
    assert reports.end({}, tmp_path) == [tmp_path / "diary.txt"]
    assert whole.told == ["begin", "add 1", "add 2", "end"]
    assert broken.told == ["begin", "add 1"]
    line = "report broken failed, the run goes on: ZeroDivisionError: oh ("
    assert capsys.readouterr().err.startswith(line)
