"""Tables leave the tool as Markdown, LaTeX and CSV, with the figures of the terminal."""

import csv
import io
from dataclasses import replace

import pytest
from rich.table import Table
from rich.text import Text

from outrider.extras.view.table_formats import FORMATS, marks, marks_note, rates_table
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval


@pytest.fixture
def small() -> Table:
    table = Table(title="a_b", caption="50% & more")
    table.add_column("drafter")
    table.add_column("speed-\nup", justify="right")
    table.add_row(Text("x|y_1"), "1.50*\n[dim]1.20-1.90[/]")
    table.add_row(Text("[z]"), "-0.10\n[dim]-0.200 +0.100[/]\n[dim]p 0.2[/]")
    return table


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("markdown", [
            "**a_b**", "", "| drafter | speedup |", "|---|---:|",
            r"| x\|y_1 | 1.50* [1.20, 1.90] |",
            "| [z] | -0.10 [-0.200, +0.100] p 0.2 |", "", "50% & more",
        ]),
        ("latex", [
            r"% \usepackage{booktabs}", r"\begin{table}", r"\centering",
            r"\caption{a\_b. 50\% \& more}", r"\begin{tabular}{lr}", r"\toprule",
            r"drafter & speedup \\", r"\midrule", r"x\textbar{}y\_1 & 1.50* [1.20, 1.90] \\",
            r"{[}z] & $-$0.10 [$-$0.200, +0.100] p 0.2 \\", r"\bottomrule", r"\end{tabular}",
            r"\end{table}",
        ]),
        ("csv", [
            "drafter,speedup", 'x|y_1,"1.50* [1.20, 1.90]"', '[z],"-0.10 [-0.200, +0.100] p 0.2"',
        ]),
    ],
)  # fmt: skip
def test_a_table_keeps_its_figures(small: Table, name: str, lines: list[str]) -> None:
    assert FORMATS[name](small).splitlines() == lines


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a_b%c #1 $x$ {y}", r"a\_b\%c \#1 \$x\$ \{y\}"),
        ("x~y^z\\", r"x\textasciitilde{}y\textasciicircum{}z\textbackslash{}"),
        ("[opt]", "{[}opt]"),
        ("*best", "{*}best"),
        ("\u03b1-\u0394\u0391", "$\\alpha$-$\\Delta$\u0391"),
        ("na\u00efve", "na\u00efve"),
        ("a---b top-2 1e-5 (-.5)", "a-{}-{}-b top-2 1e-5 ($-$.5)"),
    ],
)
def test_a_name_in_latex_prints_as_written(name: str, written: str) -> None:
    table = Table("drafter", "alpha")
    table.add_row(Text(name), "-0.1")
    (line,) = [line for line in FORMATS["latex"](table).splitlines() if "0.1" in line]
    assert line == written + r" & $-$0.1 \\"


@pytest.mark.parametrize("name", FORMATS)
def test_the_rates_of_a_run_are_written(whole_run: Run, name: str) -> None:
    summary = Summary(whole_run)
    text = FORMATS[name](rates_table({"": summary}, "4 prompts"))
    for row in summary.rows:
        speedup = row.rates["speedup"]
        assert row.drafter in text and f"{speedup.value:.2f}" in text
    if name == "csv":
        lengths = {len(row) for row in csv.reader(io.StringIO(text))}
        assert len(lengths) == 1


def test_a_run_is_named_once_and_in_every_row_of_a_spreadsheet(whole_run: Run) -> None:
    runs = rates_table(dict.fromkeys(("gamma 2", "gamma 4"), Summary(whole_run)), "2 runs")
    latex = FORMATS["latex"](runs)
    assert latex.count("gamma 2") == 1 and latex.count(r"\\ \midrule") == 1
    heads, *rows = csv.reader(FORMATS["csv"](runs).splitlines())
    assert heads[0] == "run" and {row[0] for row in rows} == {"gamma 2", "gamma 4"}


def test_stars_stand_for_tests(whole_run: Run) -> None:
    def summary(reference: str | None, *leads: tuple[str, str, float, float]) -> Summary:
        result = Summary(replace(whole_run, facts={**whole_run.facts, "reference": reference}))
        (pair, *_) = result.pairs
        result.pairs = [
            replace(pair, rate="speedup", one=one, other=other, p_holm=p,
                    difference=Interval(gap, None, None))
            for one, other, gap, p in leads
        ]  # fmt: skip
        return result

    ahead = summary(None, ("lookup", "bigram", -0.5, 0.004))
    assert marks(ahead) == {("bigram", "speedup"): "**"}
    assert "above each of the others" in marks_note(ahead)
    unsure = summary(None, ("lookup", "bigram", -0.5, 0.2))
    assert marks(unsure) == {}
    mine = summary("bigram", ("bigram", "lookup", -0.5, 0.0004))
    assert marks(mine) == {("lookup", "speedup"): "***"}
    assert "differs from bigram" in marks_note(mine)
    assert "***" in FORMATS["latex"](rates_table({"": mine}, "x"))


def test_doubts_are_marked_beside_the_stars(whole_run: Run) -> None:
    summary = Summary(whole_run)
    summary.rows = [replace(row, doubts=("the clock is wrong",)) for row in summary.rows]
    assert " !" in FORMATS["markdown"](rates_table({"": summary}, "x"))
