"""Every figure that the runs have data for is plotted."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from outrider import theory
from outrider.extras.view.figures import figures, score_times
from outrider.extras.view.paper_figures import TOKENS, chen_figure1
from outrider.extras.view.plotting import COLOURS, INK, MARKS, Canvas, as_png, as_svg, in_words
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.verifiers.lenient import Lenient

DISTRIBUTIONS = {"alpha", "tokens_over_gamma", "acceptance_by_depth"}
CLOCKS = {
    "alpha_tested", "block_efficiency", "speedup", "speedup_by_task", "speedup_over_gamma",
    "tokens_against_cost", "time_over_rows",
}  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("overlap", DISTRIBUTIONS),
        ("decode", (DISTRIBUTIONS | CLOCKS) - {"alpha"}),
        ("both", DISTRIBUTIONS | CLOCKS),
    ],
)
def test_figures_with_data_are_drawn(
    run_in: Callable[..., Any], whole_run: Run, tmp_path: Path, protocol: str, expected: set[str]
) -> None:
    run = whole_run if protocol == "both" else run_in(tmp_path, protocol=protocol).run
    drawn = figures({"": Summary(run).rows}, {"": score_times(run)})
    assert set(drawn) == expected
    for name, figure in drawn.items() if protocol == "both" else ():
        svg = as_svg(figure, name)
        ElementTree.fromstring(svg)
        assert "currentColor" in svg and INK not in svg and "<image" not in svg
        image = Image.open(BytesIO(as_png(figure)))
        assert image.width == 840
        assert len(image.getcolors(1 << 20) or []) > 20  # something is drawn


def test_a_lossy_rule_has_a_figure_of_its_own(run_in: Callable[..., Any], tmp_path: Path) -> None:
    run = run_in(tmp_path, protocol="overlap", verifier=Lenient(0.1), temperature=1.0).run
    assert "alpha_rule" in figures({"": Summary(run).rows}, {})


def test_24_drafters_are_told_apart_by_mark_and_colour(whole_run: Run) -> None:
    (row, *_) = Summary(whole_run).rows
    names = [f"drafter {number}" for number in range(24)]
    canvas = Canvas(None, {"": [replace(row, drafter=name) for name in names]})  # type: ignore[arg-type]
    styles = [canvas.style(name) for name in names]
    assert len(set(COLOURS)) == len(set(MARKS)) == len(COLOURS) == len(MARKS)
    for style, other in itertools.combinations(styles, 2):
        if style["color"] == other["color"]:
            assert style["marker"] != other["marker"] and style["fillstyle"] != other["fillstyle"]
    lines = [(s["color"], canvas.line_style("", n)) for s, n in zip(styles, names, strict=True)]
    assert len(set(lines)) == len(names)


def test_a_mark_tells_its_figure_where_it_stands(whole_run: Run) -> None:
    rows = Summary(whole_run).rows
    figure = figures({"": rows}, {})["speedup"]
    notes = ElementTree.fromstring(as_svg(figure, "speedup")).findall(".//*[@class='note']")
    speedups = {row.name: row.rates["speedup"] for row in rows}
    assert [note.get("data-note") for note in notes] == [
        f"{name}: {in_words(speedup)}" for name, speedup in speedups.items() if speedup
    ]
    # The marks of matplotlib are uses of a path; the lines of the ticks come before them.
    uses = re.findall(
        r'<use xlink:href="#[^"]*" x="([\d.]*)" y="([\d.]*)" style=', as_svg(figure, "x")
    )
    marks = [(float(x), float(y)) for x, y in uses]
    for note in notes:
        x, y = float(note.get("cx", "")), float(note.get("cy", ""))
        assert any(abs(x - left) < 0.1 and abs(y - top) < 0.1 for left, top in marks)


def test_names_are_neither_markup_nor_mathematics(whole_run: Run) -> None:
    rows = {"": [replace(row, drafter="<b>$x$</b>") for row in Summary(whole_run).rows[1:2]]}
    svg = as_svg(figures(rows, {})["speedup"], "speedup")
    assert "<b>" not in svg
    assert "<b>$x$</b>" in "".join(ElementTree.fromstring(svg).itertext())


def test_no_script_is_lost(whole_run: Run) -> None:
    names = ("\U00020000", "\U0001faef")  # of a rare script, and an emoji: no font has them
    rows = [replace(row, drafter=names[0]) for row in Summary(whole_run).rows]
    for name, figure in figures(dict.fromkeys(names, rows), {}).items():
        as_png(figure)  # with a box, and no warning
        assert names[0] in "".join(ElementTree.fromstring(as_svg(figure, name)).itertext())


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


def test_calls_are_timed_by_their_scored_rows(whole_run: Run) -> None:
    slow = []
    for measurement in whole_run.measurements:
        decoding = measurement.decoding
        if decoding is not None:
            steps = tuple(replace(step, score=0.001 * step.drafted) for step in decoding.steps)
            measurement = replace(measurement, decoding=replace(decoding, steps=steps))
        slow.append(measurement)
    times = score_times(replace(whole_run, measurements=tuple(slow)))
    assert set(times) == {"none", "lookup", "bigram"}
    for curve in times.values():
        assert list(curve) == sorted(curve)
        for rows, milliseconds in curve.items():
            assert milliseconds == pytest.approx(rows - 1)
