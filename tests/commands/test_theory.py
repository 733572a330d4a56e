"""`outrider theory` prints the papers' own numbers."""

import math
from pathlib import Path
from typing import Any

import pytest

from outrider import theory as formulas
from outrider.commands.theory import predictions


def rows(printed: str) -> list[list[float]]:
    """Returns the numbers of each row of the table."""
    lines = [line.split() for line in printed.splitlines()]
    return [
        [float(cell) for cell in line]
        for line in lines
        if line and line[0].replace(".", "").isdigit()
    ]


def test_one_row(run: Any, tmp_path: Path) -> None:
    status, out, err = run("theory", "alpha=.7", "gamma=5", "c=.05")
    assert status == 0, err
    (row,) = rows(out)
    tokens = sum(0.7**i for i in range(6))
    best = formulas.optimal_gamma(0.7, 0.05)
    assert row[:3] == [0.7, 5, 0.05]
    assert row[3:] == pytest.approx(
        [
            tokens,
            tokens / 6,
            tokens / 1.25,
            best,
            formulas.walltime_improvement(0.7, best, 0.05),
            1.7 / 1.05,
            1 / (0.3 + 0.05 * 0.7),
        ],
        abs=6e-4,
    )
    assert "Theorem 3.8" in out and "Theorem 3.11" not in out
    assert not list(tmp_path.iterdir())  # nothing is saved


def test_lists_make_rows_and_c_hat_a_column(run: Any) -> None:
    """Table 1 of Leviathan et al.: operations and speedup at c = c_hat = 0."""
    status, out, err = run("theory", "alpha=[.8,.9]", "gamma=[2,5]", "c=0", "c_hat=0")
    assert status == 0, err
    table = rows(out)
    assert [row[:2] for row in table] == [[0.8, 2], [0.8, 5], [0.9, 2], [0.9, 5]]
    assert table[0][-1] == pytest.approx(1.23, abs=0.0051)
    assert table[1][-1] == pytest.approx(1.63, abs=0.0051)
    assert table[1][5] == pytest.approx(3.69, abs=0.0051)
    assert "c_hat=0 (Theorem 3.11)" in out


def test_an_oracle_that_pays_nothing_has_no_bound() -> None:
    assert predictions(1, 3, 0, None)["oracle"] == math.inf


def test_no_draft_is_the_best_where_drafting_does_not_pay() -> None:
    row = predictions(0.1, 3, 0.5, None)
    assert (row["optimal_gamma"], row["optimal_speedup"], row["smallest_gain"]) == (0, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["alpha=1.5"], "alpha=1.5: expected a number in [0, 1]"),
        (["alpha=high"], "alpha='high': expected a number in [0, 1], or a list of them"),
        (["alpha=[]"], "alpha=[]: expected a number in [0, 1], or a list of them"),
        (["gamma=2.5"], "gamma=2.5: expected a whole number of at least 0"),
        (["c=-1"], "c=-1: expected a number of at least 0"),
        (["c_hat=x"], "c_hat='x': expected a number of at least 0, or null"),
        (["gama=3"], "gama: no such setting; did you mean 'gamma'"),
    ],
)
def test_a_number_out_of_range_is_one_line(run: Any, arguments: list[str], line: str) -> None:
    status, _, err = run("theory", *arguments)
    assert status == 1
    assert line in err and err.count("\n") == 1
