"""The tables fit a terminal, and say so if a rule is lossy."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from outrider import Drafter
from outrider.drafters.suffix import Suffix
from outrider.lab.runs.row import Row, in_order
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.pairs import Pair
from outrider.lab.tables.details import pairs_table
from outrider.lab.tables.layouts import tasks_table
from outrider.lab.tables.rates import figure_of, rates_table
from outrider.lab.tables.table import Table
from outrider.lab.tables.terminal import plotted, ranking_table, shown


def printed(table: Table, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(*shown(table))
    return console.export_text()


@pytest.fixture
def rows(whole_run: Run) -> list[Row]:
    return Summary(whole_run).rows


FIGURE = Interval(1.2345, 1.1, 1.4)


@pytest.mark.parametrize("count", [1, 2])
def test_names_stay_whole_in_80_columns(
    rows: list[Row], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ("lookahead_decoding", "token_recycling", "mlp_speculator")
    rows = [
        replace(row, drafter=name, rates=dict.fromkeys(row.rates, FIGURE), doubts=())
        for row, name in zip(rows, names, strict=True)
    ]
    labels = ["gamma 2, temperature 0.0", "gamma 4, temperature 1.0"][:count]
    shown = printed(rates_table(dict.fromkeys(labels, rows), "a title"))
    assert all(shown.count(name) == count for name in names)
    assert count == 1 or shown.count("temperature") == count  # a label stands above its rows
    assert "hidden at this width: alpha of control, median speedup" in shown
    assert max(map(len, shown.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "200")
    assert "hidden" not in printed(rates_table(dict.fromkeys(labels, rows), "a title"))


def with_intervals(rows: list[Row]) -> list[Row]:
    """Returns the rows with an interval for every figure."""
    return [
        replace(
            row,
            prompts=24,
            rates={
                name: rate and Interval(rate.value, rate.value * 0.9, rate.value * 1.1)
                for name, rate in row.rates.items()
            },
        )
        for row in rows
    ]


def test_a_ceiling_is_shown_where_it_differs_from_alpha(rows: list[Row]) -> None:
    assert "ceiling" not in printed(rates_table({"": rows}, "4 prompts"))
    tree = replace(rows[-1], rates={**rows[-1].rates, "alpha_ceiling": FIGURE})
    assert "ceiling" in printed(rates_table({"": [tree]}, "4 prompts"))


def test_pairs_are_shown_in_every_rate_with_the_family_named(whole_run: Run) -> None:
    pairs = Summary(whole_run).pairs
    text = printed(pairs_table(pairs))
    assert "…" not in text and "none" not in text
    for words in ("alpha", "per call", "speed", "4 prompts are too few to show a difference"):
        assert words in text
    words = " ".join(text.split())
    assert "by Holm over the tests of one rate: 1" in words and "use 6 or more" in words
    wide = [replace(pair, difference=Interval(-0.123, -0.234, 0.012), p_holm=0.5) for pair in pairs]
    assert printed(pairs_table(wide)).count("-0.12") == 3
    assert "0.23" not in printed(pairs_table(wide))  # beside a corrected p it would not agree
    long = [replace(pair, one="lookahead_decoding", other="token_recycling") for pair in wide]
    text = printed(pairs_table(long))
    assert "lookahead_decoding  token_recycling" in text
    assert [column.heading for column in pairs_table(long).columns[:2]] == ["drafter", "minus"]


def with_speedups(rows: list[Row], **speedups: float) -> list[Row]:
    return [
        replace(
            row,
            doubts=(),
            target_itself=row.drafter == "lookup",
            rates={**row.rates, "speedup": Interval(speedups[row.drafter], None, None)},
        )
        for row in rows
    ]


def test_rows_are_in_rank_order_and_ceilings_below_a_rule(rows: list[Row]) -> None:
    fast = with_speedups(rows, none=1.0, lookup=1.5, bigram=1.2)
    table = rates_table({"": fast}, "4 prompts")
    assert [row[0] for row in table.rows] == ["bigram", "plain decoding", "lookup"]
    assert table.ceilings == (2,)
    assert [is_new for _, is_new in table.groups()] == [False, False, True]
    assert "lookup: the target's own weights: a ceiling, not a contender" in table.notes
    assert "*" not in printed(table)
    alone = [row for row in fast if row.drafter != "bigram"]
    assert rates_table({"": alone}, "").ceilings == ()
    missing = [replace(fast[0], rates={**fast[0].rates, "block_efficiency": None}), fast[1]]
    assert in_order(missing, "block_efficiency")[-1] is missing[0]
    doubtful = [replace(row, doubts=("busy",), target_itself=False) for row in fast]
    assert rates_table({"": doubtful}, "").rows[-1][0] == "plain decoding"  # tokens rank


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (None, ["speedup", "tokens per call", "accepted of tested", "faster than plain?", "alpha"]),
        (["alpha", "faster_than_plain"], ["alpha", "faster than plain?"]),
    ],
)
def test_a_verdict_and_an_interval_come_from_one_test(
    rows: list[Row], columns: list[str] | None, shown: list[str]
) -> None:
    fast = with_speedups(rows, none=1.0, lookup=1.5, bigram=1.2)
    gap = Interval(0.5, 0.2, 0.9)
    sure = Pair("speedup", "lookup", "plain decoding", gap, 0.001, 0.002, 12, 2)
    tests = [sure, replace(sure, one="bigram", p_holm=0.3, difference=Interval(0.2, -0.1, 0.6))]
    table = rates_table({"": fast}, "", over_plain=tests, columns=columns)
    titles = [column.title for column in table.columns[1:]]
    assert titles[: len(shown)] == shown
    place = 1 + titles.index("faster than plain?")
    assert [row[place] for row in table.rows] == ["not certain", "", "yes"]
    if columns is None:
        assert [row[1].interval.low for row in table.rows] == [pytest.approx(0.9), None, 1.2]
    few = [replace(pair, prompts=4) for pair in tests]
    assert "faster" not in printed(rates_table({"": fast}, "", over_plain=few))


def test_tasks_are_columns_as_on_the_leaderboard(rows: list[Row]) -> None:
    assert all(set(row.tasks) == {"chat", "code"} for row in rows)
    names = ["mt_bench", "translation", "summarization", "qa", "math_reasoning", "rag"]
    rates = dict.fromkeys(("speedup", "block_efficiency"), Interval(1.52, 1.41, 1.65))
    wide = [replace(row, tasks=dict.fromkeys(names, rates)) for row in with_intervals(rows)]
    text = printed(tasks_table(wide))
    for word in ("mt", "bench", "qa", "math", "rag", "overall", "tokens", "1.52", "±0.13"):
        assert word in text
    assert "…" not in text and "without ±" not in text
    assert "without ±: fewer than 5 prompts" in printed(tasks_table(rows))
    assert "tokens per call by task" in printed(tasks_table(wide, "block_efficiency"))


@pytest.mark.parametrize(
    ("interval", "rate", "lines"),
    [
        (Interval(0.5, 0.412, 1.0), "alpha", ["0.500", ".41-1.00"]),
        (Interval(0.5, None, None), "alpha", ["0.500"]),
        (Interval(31.26, None, None), "tokens_per_second", ["31.3"]),
        (Interval(0.1, -0.02, 0.22), "rouge2_difference", ["+0.100", "-0.020 +0.220"]),
    ],
)
def test_figures_with_their_intervals(interval: Interval, rate: str, lines: list[str]) -> None:
    figure = figure_of(interval, rate)
    assert figure is not None and figure.lines() == lines
    assert figure_of(None, rate) is None


def test_a_drafter_that_remembers_says_so(
    run_in: Callable[..., Any], drafters: dict[str, Drafter], tmp_path: Path
) -> None:
    drafters["suffix"] = Suffix()
    summary = Summary(run_in(tmp_path, protocol="decode").run)
    assert [row.drafter for row in summary.rows if row.remembers] == ["suffix"]
    notes = rates_table({"": summary.rows}, "").notes
    assert any("suffix: remembers the prompts before, in their order" in note for note in notes)


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
