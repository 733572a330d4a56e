"""The first table of a run fits a terminal, with its intervals as lines."""

from dataclasses import replace

import pytest
from rich.console import Console

from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval
from outrider.lab.tables.terminal import plotted, ranking_table, shown


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("doubts", [(), ("the machine is busy",)])
def test_the_first_table_has_five_columns_in_any_width(
    whole_run: Run, monkeypatch: pytest.MonkeyPatch, width: int, doubts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    summary = Summary(whole_run)
    summary.rows = [replace(row, doubts=doubts) for row in summary.rows]
    table = ranking_table(summary, "4 prompts")
    assert len(table.columns) == 5
    first = "tokens per call" if doubts else "speedup"
    assert [column.title for column in table.columns[:2]] == ["drafter", first]
    console = Console(width=width, record=True, file=None)
    with console.capture() as capture:
        console.print(*shown(table))
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width and "…" not in capture.get()
    assert len(shown(replace(table, notes=()))) == 1


@pytest.mark.parametrize(
    ("intervals", "width", "expected"),
    [
        ([Interval(1.2, 0.9, 1.5)], 11, ["0.5  1   1.5", "    ─┼─●───"]),
        ([Interval(2.0, 1.0, 3.0), None], 11, ["1    2    3", "┼────●─────", "│          "]),
        ([Interval(1.5, None, None)], 6, ["1   1.5", "│    ●"]),
    ],
)
def test_intervals_are_drawn_to_scale(
    intervals: list[Interval | None], width: int, expected: list[str]
) -> None:
    axis, lines = plotted(intervals, width, len(intervals))
    assert [axis, *lines] == expected


def test_ceilings_do_not_widen_the_scale() -> None:
    axis, lines = plotted([Interval(1.2, 0.9, 1.5), Interval(4.6, 4.5, 4.7)], 20, 1)
    assert lines[1].endswith("→") and "4.6" not in axis
    assert plotted([Interval(1.2, 0.9, 1.5)], 20, 1) == (axis, lines[:1])
