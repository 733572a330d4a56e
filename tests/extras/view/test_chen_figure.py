"""Chen et al.'s Figure 1 has the figures of the runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider import theory
from outrider.extras.view.chen_figure import TOKENS, chen_figure1
from outrider.lab.runs.summary import Summary


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
