"""Tables leave the tool as Markdown, LaTeX and CSV, with the figures of the terminal."""

import csv
from dataclasses import replace

import pytest

from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval
from outrider.lab.tables.formats import FORMATS
from outrider.lab.tables.rates import star_notes, starred_rates_table, stars_of
from outrider.lab.tables.table import Column, Figure, Table, names_of


@pytest.fixture
def small() -> Table:
    gap = Figure(Interval(-0.1, -0.2, 0.1), signed=True, p=0.2)
    return Table(
        "a_b",
        (*names_of("drafter"), Column("speed-\nup")),
        (("x|y_1", Figure(Interval(1.5, 1.2, 1.9), 2, "*")), ("<z>", gap), ("none", None)),
        ("50% & more",),
    )


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("markdown", [
            "**a_b**", "",
            "| drafter   |                       speedup |",
            "|:----------|------------------------------:|",
            r"| x\|y_1    |            1.50* [1.20, 1.90] |",
            r"| \<z>      | -0.100 [-0.200, +0.100] p 0.2 |",
            "| none      |                             - |", "", "50% & more",
        ]),
        ("latex", [
            r"% \usepackage{booktabs}", r"\begin{table}", r"\centering",
            r"\caption{a\_b. 50\% \& more}", r"\begin{tabular}{lr}", r"\toprule",
            r"drafter & speedup \\", r"\midrule", r"x|y\_1 & 1.50* [1.20, 1.90] \\",
            r"\ensuremath{<}z\ensuremath{>} & -0.100 [-0.200, +0.100] p 0.2 \\",
            r"none & - \\", r"\bottomrule", r"\end{tabular}", r"\end{table}",
        ]),
        ("csv", [
            "drafter,speedup", 'x|y_1,"1.50* [1.20, 1.90]"', '<z>,"-0.100 [-0.200, +0.100] p 0.2"',
            "none,-",
        ]),
    ],
)  # fmt: skip
def test_a_table_keeps_its_figures(small: Table, name: str, lines: list[str]) -> None:
    assert FORMATS[name](small).splitlines() == lines


@pytest.mark.parametrize(
    ("cell", "in_markdown", "in_csv"),
    [
        ("![a](http://evil/x.png)", r"![a\](http://evil/x.png)", "![a](http://evil/x.png)"),
        ("+1+cmd|' /C'!A0", r"+1+cmd\|' /C'!A0", "'+1+cmd|' /C'!A0"),
        ("\t=1", "=1", "'\t=1"),
        ("-0.5", "-0.5", "-0.5"),
    ],
)
def test_a_name_is_no_link_and_no_formula(
    small: Table, cell: str, in_markdown: str, in_csv: str
) -> None:
    odd = replace(small, columns=(Column(cell, kind="text"),), rows=((cell,),), title="", notes=())
    heading, row = csv.reader(FORMATS["csv"](odd).splitlines())
    assert heading == row == [in_csv]
    lines = FORMATS["markdown"](odd).splitlines()
    assert [lines[0].strip("|\t "), lines[2].strip("|\t ")] == [in_markdown] * 2


def test_intervals_stand_below_their_figures_in_a_wide_table(small: Table) -> None:
    name, figure = small.rows[0]
    wide = replace(
        small,
        columns=(*names_of("drafter"), *[Column("tokens\na call")] * 6),
        rows=((name, *[figure] * 6),),
    )
    assert FORMATS["latex"](wide).splitlines()[8:15] == [
        "drafter" + " & tokens" * 6 + r" \\",
        " & a call".strip() + " & a call" * 5 + r" \\",
        r"\midrule",
        r"x|y\_1" + " & 1.50*" * 6 + r" \\",
        "& [1.20, 1.90]" + " & [1.20, 1.90]" * 5 + r" \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_run_is_named_once_and_in_every_row_of_a_spreadsheet(whole_run: Run) -> None:
    runs = starred_rates_table(dict.fromkeys(("gamma 2", "gamma 4"), Summary(whole_run)), "2 runs")
    latex = FORMATS["latex"](runs)
    assert latex.count("gamma 2") == 1 and latex.count(r"\midrule") == 2
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
    assert stars_of(ahead) == {("bigram", "speedup"): "**"}
    assert "above each of the others" in star_notes([ahead])[0]
    unsure = summary(None, ("lookup", "bigram", -0.5, 0.2))
    assert stars_of(unsure) == {}
    mine = summary("bigram", ("bigram", "lookup", -0.5, 0.0004))
    assert stars_of(mine) == {("lookup", "speedup"): "***"}
    assert "differs from bigram" in star_notes([mine])[0]
    assert "***" in FORMATS["latex"](starred_rates_table({"": mine}, "x"))
