"""Runs are shown as in the papers, with the figures of the runs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.layouts import LAYOUTS
from outrider.lab.tables.rates import figure_of
from outrider.lab.tables.table import RATES, Table
from outrider.verifiers.lenient import Lenient


def cells(table: Table) -> list[list[str]]:
    """Returns the cells of each line, as they are printed."""
    return [
        [it if isinstance(it, str) else "-" if it is None else it.number + it.mark for it in row]
        for row in table.rows
    ]


def value(summary: Summary, drafter: str, rate: str) -> str:
    row = next(row for row in summary.rows if row.drafter == drafter)
    return figure_of(row.rates[rate], rate).number


def test_leviathans_table_3_has_a_column_for_each_temperature(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    runs = [
        Summary(run_in(tmp_path / str(t), protocol="overlap", temperature=t).run) for t in (0, 1)
    ]
    table = LAYOUTS["leviathan_table3"](runs)
    assert [column.heading for column in table.columns[1:]] == [
        "temperature\n0", "temperature\n1",
    ]  # fmt: skip
    assert cells(table) == [
        [name, *(value(run, name, "alpha") for run in runs)]
        for name in ("bigram", "lookup", "none")
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
    table = LAYOUTS["speedup"](runs)
    assert [column.heading for column in table.columns[1:]] == ["T = 0", "T = 1"]
    name, *figures = cells(table)[1]
    assert figures[0] == value(first, name, "speedup") + " !"  # a doubtful figure has no star
    assert figures[1] == value(other, name, "speedup")
    notes = " ".join(table.notes)
    assert "differs from bigram" in notes and "the clock is wrong" in notes
    one = LAYOUTS["speedup"]([first])  # where all are doubtful, no mark tells them apart
    assert not any(" !" in str(cell) for row in cells(one) for cell in row)
    assert "the clock is wrong" in " ".join(one.notes)
    first.pairs, other.pairs = other.pairs, other.pairs
    assert "4 prompts are too few to show a difference" in " ".join(LAYOUTS["alpha"](runs).notes)
    first.pairs = [pair for pair in first.pairs if pair.rate != "alpha"]
    first.pairs[0] = replace(first.pairs[0], p_holm=0.004)
    assert LAYOUTS["alpha"]([first]).notes == (
        "no stars: alpha is not tested in this run, but alpha, block_efficiency, speedup",
    )


def test_spec_bench_has_a_column_for_each_task(whole_run: Run) -> None:
    table = LAYOUTS["spec_bench"]([Summary(whole_run)])
    assert [column.heading for column in table.columns] == [
        "drafter", "chat", "code", "tokens\nper call", "overall",
    ]  # fmt: skip


def test_leviathans_table_5_shows_the_acceptance_of_the_lenient_rule(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    run = run_in(tmp_path, protocol="overlap", verifier=Lenient(0.1), temperature=1).run
    run.facts["settings"]["verifier"]["lenience"] = 0.1
    table = LAYOUTS["leviathan_table5"]([Summary(run)])
    assert not LAYOUTS["chen_table1"]([Summary(run)]).rows  # nothing was decoded
    assert table.columns[1].heading == "lenience\n0.1"
    assert cells(table)[0] == ["bigram", value(Summary(run), "bigram", "alpha_rule")]


def test_chens_table_1_has_a_line_for_each_drafter_on_each_task(
    run_in: Callable[..., Any], tmp_path: Path
) -> None:
    run = Summary(run_in(tmp_path, protocol="decode").run)
    lines = cells(LAYOUTS["chen_table1"]([run]))
    assert [line[:2] for line in lines] == [
        [method, task]
        for task in ("chat", "code")
        for method in ("ArS (greedy)", "SpS (greedy), lookup", "SpS (greedy), bigram")
    ]
    speed = run.rows[2].tasks["chat"]["tokens_per_second"]
    assert lines[2][2:4] == ["-", f"{1000 / speed.value:.2f} ms/token"]


def test_every_column_is_explained() -> None:
    assert all(column.meaning and column.source for column in RATES.values())
