"""`outrider theory` prints the papers' own numbers."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from outrider import theory as formulas
from outrider.extras.theory.command import predictions
from outrider.extras.view.paper_figures import ALPHAS, FIGURES, TRACED, figure
from outrider.theory import Values


def rows(printed: str) -> list[list[float]]:
    """Returns the numbers of each row of the table."""
    lines = [line.split() for line in printed.splitlines()]
    return [
        [float(cell) for cell in line]
        for line in lines
        if line and line[0].replace(".", "").isdigit()
    ]


def figures(printed: str) -> list[float]:
    """Returns the figure of each line, of those that a single setting has."""
    return [
        float(figure) for figure in re.findall(r"^\S.*?  +([\d.]+)(?:  |$)", printed, re.MULTILINE)
    ]


def test_a_line_a_figure_is_printed_for_one_setting(run: Any, tmp_path: Path) -> None:
    out = run.done("theory", "alpha=.7", "gamma=5", "c=.05")
    row = figures(out)
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
    out = run.done("theory", "alpha=[.8,.9]", "gamma=[2,5]", "c=0", "c_hat=0")
    table = rows(out)
    assert [row[:2] for row in table] == [[0.8, 2], [0.8, 5], [0.9, 2], [0.9, 5]]
    assert table[0][-1] == pytest.approx(1.23, abs=0.0051)
    assert table[1][-1] == pytest.approx(1.63, abs=0.0051)
    assert table[1][5] == pytest.approx(3.69, abs=0.0051)
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


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_of_the_paper_is_one_command(run: Any, tmp_path: Path, name: str) -> None:
    assert run("theory", f"paper={name}")[0] == 0
    image = Image.open(tmp_path / f"{name}.png")
    assert len(image.getcolors(1 << 20) or []) > 20  # something is drawn


def curves(name: str, values: Values) -> dict[str, list[float]]:
    """Returns the heights of each line of a figure, by its label."""
    axes = figure(name, values).axes[0]
    return {str(line.get_label()): [*map(float, line.get_ydata())] for line in axes.lines}


def test_the_curves_are_the_formulas() -> None:
    values = Values(alphas=[0.75], gammas=[3, 7], costs=[0.02, 0.1], c_hat=0.05)
    at = ALPHAS.index(0.8)
    tokens = curves("figure2", values)
    assert tokens["gamma 3"][at] == formulas.expected_tokens(0.8, 3)
    assert tokens["gamma 7"][at] == formulas.expected_tokens(0.8, 7)
    assert curves("figure3", values)["c 0.1"][at] == formulas.optimal_gamma(0.8, 0.1)
    figure4 = figure("figure4", values).axes[0].lines
    speed, operations = (line.get_ydata()[at] for line in figure4[:2])
    assert speed == formulas.walltime_improvement(0.8, 3, 0.02)
    assert operations == formulas.operations(0.8, 3, 0.05)


def test_the_trace_has_a_block_for_every_call() -> None:
    axes = figure("figure5", Values([0.75], [3], [0.1], 0)).axes[0]
    drafts, calls, _, plain = (len(blocks.get_paths()) for blocks in axes.collections)
    assert calls == math.ceil(TRACED / formulas.expected_tokens(0.75, 3))
    assert (drafts, plain) == (3 * calls, TRACED)


def test_an_oracle_that_pays_nothing_has_no_bound() -> None:
    assert predictions(1, 3, 0, None)["oracle"] == math.inf


def test_no_draft_is_the_best_where_drafting_does_not_pay() -> None:
    row = predictions(0.1, 3, 0.5, None)
    assert (row["optimal_gamma"], row["optimal_speedup"], row["smallest_gain"]) == (0, 1, 1)


def test_a_measured_profile_takes_the_place_of_alpha(run: Any, tmp_path: Path) -> None:
    profile = {
        "schema_version": "1.0", "measured": True, "method": "eagle3", "num_speculative_tokens": 3,
        "verification_method": "longest_prefix", "conditional_accept_rates": [0.8, 0.75, 0.5],
        "marginal_accept_rates": [0.8, 0.6, 0.3], "mean_accept_length": 2.7,
        "accept_length_model": "chain_analytic", "accept_length_by_k": {"3": 2.7},
    }  # fmt: skip
    path = tmp_path / "speculation_profile.json"
    path.write_text(json.dumps(profile))
    out = run.done("theory", f"profile={path}", "c=.1")
    expected = [[1, 1.8, 1.8 / 1.1], [2, 2.4, 2 / 1], [3, 2.7, 2.7 / 1.3]]
    assert [[row[0], row[2], row[4]] for row in rows(out)] == [
        pytest.approx(row, abs=6e-4) for row in expected
    ]
    path.write_text(json.dumps(profile | {"accept_length_model": "measured_per_k"}))
    out = run.done("theory", f"profile={path}", "c=.1")
    assert figures(out)[0] == 3  # other lengths were not measured
