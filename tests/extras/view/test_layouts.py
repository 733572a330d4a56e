"""Runs are shown as in the papers, with the figures of the runs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from outrider import theory
from outrider.base.errors import ConfigError
from outrider.extras.view.layouts import TABLES, TOKENS, chen_figure1
from outrider.extras.view.report_command import report
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.runs.table import cell
from outrider.verifiers.lenient import Lenient


def cells(table: Table) -> list[list[str]]:
    """Returns the cells of each line, as they are printed."""
    console = Console(width=200)

    def text(cell: Any) -> str:
        return str(console.render_str(cell) if isinstance(cell, str) else cell)

    return [list(line) for line in zip(*(map(text, c.cells) for c in table.columns), strict=True)]


def value(summary: Summary, drafter: str, rate: str) -> str:
    row = next(row for row in summary.rows if row.drafter == drafter)
    return cell(row.rates[rate], rate).split("\n")[0]


def test_leviathans_table_3_has_a_column_for_each_temperature(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    runs = [
        Summary(run_in(tmp_path / str(t), protocol="overlap", temperature=t).run) for t in (0, 1)
    ]
    table = TABLES["leviathan_table3"](runs)
    assert [str(column.header) for column in table.columns[1:]] == [
        "temperature\n0", "temperature\n1",
    ]  # fmt: skip
    assert cells(table) == [
        [name, *(value(run, name, "alpha") for run in runs)]
        for name in ("none", "lookup", "bigram")
    ]


def test_a_rate_has_a_column_for_each_run_with_stars_and_doubts(whole_run: Run) -> None:
    runs = []
    for temperature in (0, 1):
        settings = {**whole_run.facts["settings"], "sampling": {"temperature": temperature}}
        facts = {**whole_run.facts, "settings": settings, "reference": "bigram"}
        runs.append(Summary(replace(whole_run, facts=facts)))
    first, other = runs
    first.rows = [replace(row, doubts=("the clock is wrong",)) for row in first.rows]
    first.pairs = [replace(pair, p_holm=0.004) for pair in first.pairs]
    table = TABLES["speedup"](runs)
    assert [str(column.header) for column in table.columns[1:]] == ["T = 0", "T = 1"]
    name, *figures = cells(table)[1]
    assert figures[0].startswith(value(first, name, "speedup") + " !**")
    assert figures[1].split("\n")[0] == value(other, name, "speedup")
    assert "differs from bigram" in str(table.caption) and "the clock is wrong" in str(
        table.caption
    )
    first.pairs, other.pairs = other.pairs, other.pairs
    assert "4 prompts can't show a difference" in str(TABLES["alpha"](runs).caption)


def test_spec_bench_has_a_column_for_each_task(whole_run: Run) -> None:
    table = TABLES["spec_bench"]([Summary(whole_run)])
    assert [str(column.header) for column in table.columns] == [
        "drafter", "chat", "code", "tokens\na call", "overall",
    ]  # fmt: skip


def test_leviathans_table_5_shows_the_acceptance_of_the_lenient_rule(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    run = run_in(tmp_path, protocol="overlap", verifier=Lenient(0.1), temperature=1).run
    run.facts["settings"]["verifier"]["lenience"] = 0.1
    table = TABLES["leviathan_table5"]([Summary(run)])
    assert not TABLES["chen_table1"]([Summary(run)]).rows  # nothing was decoded
    assert str(table.columns[1].header) == "lenience\n0.1"
    assert cells(table)[2] == ["bigram", value(Summary(run), "bigram", "alpha_rule")]


def test_chens_table_1_has_a_line_for_each_drafter_on_each_task(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    run = Summary(run_in(tmp_path, protocol="decode").run)
    lines = cells(TABLES["chen_table1"]([run]))
    assert [line[:2] for line in lines] == [
        [method, task]
        for task in ("chat", "code")
        for method in ("ArS (greedy)", "SpS (greedy), lookup", "SpS (greedy), bigram")
    ]
    speed = run.rows[2].tasks["chat"]["tokens_per_second"]
    assert lines[2][2:4] == ["-", f"{1000 / speed.value:.2f} ms/token"]


def test_chens_figure_1_has_three_panels_over_gamma(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    runs = [
        Summary(run_in(tmp_path / str(gamma), protocol="decode", gamma=gamma).run)
        for gamma in (2, 1)
    ]
    time, filled, loop = chen_figure1(runs).axes
    lines = {axes: axes.containers[1].lines[0] for axes in (time, filled, loop)}  # of bigram
    assert all(list(line.get_xdata()) == [1, 2] for line in lines.values())
    rows = [run.rows[2] for run in reversed(runs)]
    shares = [
        theory.filled_share(row.rates["block_efficiency"].value, gamma)  # type: ignore[union-attr]
        for gamma, row in enumerate(rows, start=1)
    ]
    assert list(lines[filled].get_ydata()) == pytest.approx(shares)
    own = [m.decoding for m in runs[0].run.measurements if m.drafter == "bigram"]
    mean = sum(TOKENS * text.seconds / text.counts.emitted for text in own) / len(own)
    assert lines[time].get_ydata()[1] == pytest.approx(mean)
    milliseconds = 1000 * rows[0].seconds["total"] / rows[0].counts.rounds
    assert lines[loop].get_ydata()[0] == pytest.approx(milliseconds)


def test_a_report_takes_a_layout(
    run_in: Callable[..., Any], tmp_path: Path, capsys: Any, drawn_once: None
) -> None:
    run_in(tmp_path, protocol="overlap")
    report([str(tmp_path), "--layout", "leviathan_table3"])
    assert "temperature" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"layout='table3': expected one of .*; did you mean"):
        report([str(tmp_path), "--layout", "table3"])
