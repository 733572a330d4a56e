"""`outrider theory` prints the papers' own numbers."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from outrider import theory as formulas
from outrider.extras.theory.command import predictions


def test_a_line_a_figure_is_printed_for_one_setting(run: Any, tmp_path: Path) -> None:
    words = ("theory", "alpha=.7", "gamma=5", "c=.05")
    (row,) = json.loads(run.done(*words, "--json"))
    tokens, best = sum(0.7**i for i in range(6)), formulas.optimal_gamma(0.7, 0.05)
    with_best = formulas.walltime_improvement(0.7, best, 0.05)
    speedups = [tokens / 1.25, best, with_best, 1.7 / 1.05, 1 / (0.3 + 0.05 * 0.7)]
    assert [*row.values()] == pytest.approx([0.7, 5, 0.05, tokens, tokens / 6, *speedups])
    out = run.done(*words)
    printed = re.findall(r"^\S.*?  +([\d.]+)(?:  |$)", out, re.MULTILINE)
    assert [*map(float, printed)] == pytest.approx([*row.values()], abs=6e-4)
    assert "Theorem 3.8" in out and "Theorem 3.11" not in out
    assert not list(tmp_path.iterdir())  # nothing is saved


def test_lists_make_rows_and_c_hat_a_column(run: Any) -> None:
    """Table 1 of Leviathan et al.: operations and speedup at c = c_hat = 0."""
    words = ("theory", "alpha=[.8,.9]", "gamma=[2,5]", "c=0", "c_hat=0")
    table, out = json.loads(run.done(*words, "--json")), run.done(*words)
    pairs = [(row["alpha"], row["gamma"]) for row in table]
    assert pairs == [(0.8, 2), (0.8, 5), (0.9, 2), (0.9, 5)]
    assert [row["operations"] for row in table[:2]] == pytest.approx([1.23, 1.63], abs=0.0051)
    assert table[1]["speedup"] == pytest.approx(3.69, abs=0.0051)
    assert all(f"{row['operations']:.3f}" in out for row in table)
    assert "c_hat=0 (Theorem 3.11)" in out


def test_table_1_is_the_papers(run: Any, tmp_path: Path) -> None:
    out = run.done("theory", "paper=table1")
    assert [line.split() for line in out.splitlines()[2:] if line.strip()] == [
        ["0.6", "2", "1.53X", "1.96X"],
        ["0.7", "3", "1.58X", "2.53X"],
        ["0.8", "2", "1.23X", "2.44X"],
        ["0.8", "5", "1.63X", "3.69X"],
        ["0.9", "2", "1.11X", "2.71X"],
        ["0.9", "10", "1.60X", "6.86X"],
    ]
    err = run.refused("theory", "paper=table1", "gamma=[2,3]")
    assert "gamma=[2, 3]: expected as many values as alpha has" in err
    assert not list(tmp_path.iterdir())


def test_an_oracle_that_pays_nothing_has_no_bound() -> None:
    assert predictions(1, 3, 0, None)["oracle"] == math.inf


def test_no_draft_is_the_best_where_drafting_does_not_pay() -> None:
    row = predictions(0.1, 3, 0.5, None)
    assert (row["optimal_gamma"], row["optimal_speedup"], row["smallest_gain"]) == (0, 1, 1)
