"""Figures: the plots of a comparison, each legible on a phone."""

from collections.abc import Mapping, Sequence
from functools import partial

from outrider.extras.view.costs import ScoreTimes, plot_pareto, plot_score_times
from outrider.extras.view.plotting import (
    Axes,
    Figure,
    Plot,
    Rows,
    add_note,
    drawn,
    each_row,
    finish,
    plot_interval,
    plot_line,
    plot_mark,
    set_height,
    short,
    style_of,
    use_integer_ticks,
)
from outrider.extras.view.task_figures import plot_heat_map, plots_by_task
from outrider.lab.runs.labels import labelled
from outrider.lab.runs.row import ceilings
from outrider.lab.statistics.intervals import FEWEST, Interval
from outrider.lab.tables.columns import measured_rates

XLABELS = {
    "alpha": "alpha (overlap of p and q), 95%",
    "alpha_rule": "acceptance under the rule, 95%",
    "alpha_tested": "alpha tested (accepted of tested), 95%",
    "block_efficiency": "tokens per call, 95%",
    "speedup": "speedup over plain decoding, 95%",
}
"""The rates that are plotted with their intervals, each with its axis label."""


def figures(rows: Rows, times: Mapping[str, ScoreTimes]) -> dict[str, Figure]:
    """Returns the figures that the runs have data for, by name.

    times: the `score_times` of each run, by its label.
    """
    all_rows = [row for run in rows.values() for row in run]
    measured = measured_rates(all_rows)
    plots: dict[str, Plot] = {
        rate: partial(_plot_rate, rate=rate) for rate in XLABELS if rate in measured
    }
    if any({"tokens_at", "tokens_tested_at"} & row.depths.keys() for row in all_rows):
        plots["tokens_over_gamma"] = _plot_tokens
        plots["acceptance_by_depth"] = _plot_depths
    if any(row.prediction for row in all_rows):
        plots["speedup_over_gamma"] = _plot_speedups
        if len({row.gamma for row in all_rows}) > 1:
            plots["time_over_gamma"] = _plot_times
            if len(rows) > 1:
                plots["speedup_heat_map"] = plot_heat_map
        plots["predicted_against_measured"] = _plot_predictions
        plots["tokens_against_cost"] = plot_pareto
    if any(len(curve) > 1 for run in times.values() for curve in run.values()):
        plots["time_over_rows"] = partial(plot_score_times, times=times)
    plots |= plots_by_task(rows)
    return {name: drawn(plot, rows=rows) for name, plot in plots.items()}


def _plot_rate(axes: Axes, rows: Rows, rate: str) -> None:
    set_height(axes, 0.9 + 0.24 * sum(map(len, rows.values())))
    labels: list[str] = []
    below = [row for run in rows.values() for row in ceilings(run)]
    for label, row in each_row(rows):
        figure = row.rates[rate]
        if figure is not None:
            name, style = labelled(row.name, label), style_of(rows, row.drafter)
            if row in below:
                style |= {"color": "#999"}
                axes.axhline(len(labels) - 0.5, color="#999", linewidth=0.8)
            plot_interval(axes, figure, len(labels), name, style)
            labels.append(name)
    axes.set_yticks(range(len(labels)), [short(label) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)
    shown = [row.rates[rate] for _, row in each_row(rows)]
    has_ends = any(figure is not None and figure.low is not None for figure in shown)
    axes.set_xlabel(XLABELS[rate] if has_ends else XLABELS[rate].removesuffix(", 95%"))
    if rate in ("speedup", "block_efficiency"):
        axes.axvline(1, color="#999", linewidth=0.8, zorder=0)
        axes.set_xlim(0, axes.dataLim.xmax * 1.05)
    else:
        axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x", alpha=0.3)


def _plot_depths(axes: Axes, rows: Rows) -> None:
    for label, row in each_row(rows):
        points = _by_depth(row.depths)
        if any(points.values()):
            plot_line(axes, rows, label, row.drafter, points)
    axes.set_ylim(-0.02, 1.02)
    use_integer_ticks(axes)
    axes.set_xlabel("depth of the draft token")
    axes.set_ylabel("accepted, where the draft got there")
    finish(axes)


def _by_depth(depths: Mapping[str, Sequence[float | None]]) -> dict[float, Interval | None]:
    """Returns the acceptance at each depth; None where too few drafts got there to tell."""
    field = "alpha_at" if "alpha_at" in depths else "tested_at"
    values = depths.get(field, ())
    nothing = [None] * len(values)
    lows, highs = (depths.get(f"{field}_{end}", nothing) for end in ("low", "high"))
    counts = depths.get(f"{field}_n", [FEWEST] * len(values))  # expected shares have no count
    return {
        depth: None if value is None or (count or 0) < FEWEST else Interval(value, low, high)
        for depth, (value, low, high, count) in enumerate(
            zip(values, lows, highs, counts, strict=True), start=1
        )
    }


def _plot_tokens(axes: Axes, rows: Rows) -> None:
    for label, row in each_row(rows):
        field = "tokens_at" if "tokens_at" in row.depths else "tokens_tested_at"
        values = row.depths.get(field, ())
        if any((value or 1) > 1 for value in values):
            points = dict(enumerate(values, start=1))
            plot_line(axes, rows, label, row.drafter, points, mark="")
        decoded = row.rates["block_efficiency_uncut"]
        if decoded is not None and decoded.value > 1:
            plot_mark(axes, rows, label, row.drafter, (row.gamma, decoded))
    axes.set_xlabel("gamma (lines: expected; marks: decoded)")
    axes.set_ylabel("tokens per call, if no text were cut")
    use_integer_ticks(axes)
    finish(axes)


def _plot_speedups(axes: Axes, rows: Rows) -> None:
    for label, row in each_row(rows):
        measured, prediction = row.rates["speedup"], row.prediction
        if prediction is None or measured is None:
            continue
        tokens = row.depths["tokens_tested_at"]
        expected = {
            gamma: (value or 1) / (gamma * prediction.cost_ratio + 1)
            for gamma, value in enumerate(tokens, start=1)
        }
        plot_line(axes, rows, label, row.drafter, expected, mark="")
        plot_mark(axes, rows, label, row.drafter, (row.gamma, measured))
    axes.axhline(1, color="#999", linewidth=0.8, zorder=0)
    use_integer_ticks(axes)
    axes.set_xlabel("gamma (lines: expected; marks: measured)")
    axes.set_ylabel("speedup")
    axes.set_ylim(bottom=0)
    finish(axes)


def _plot_times(axes: Axes, rows: Rows) -> None:
    points: dict[str, list[tuple[int, float]]] = {}
    for _, row in each_row(rows):
        if row.seconds is not None and row.counts is not None and row.counts.drafted:
            milliseconds = 1000 * row.seconds["total"] / row.counts.rounds
            points.setdefault(row.drafter, []).append((row.gamma, milliseconds))
    for drafter, curve in points.items():
        xs, ys = zip(*sorted(curve), strict=True)
        axes.plot(xs, ys, label=drafter, linewidth=1.2, **style_of(rows, drafter))
        for gamma, milliseconds in curve:
            add_note(axes, gamma, milliseconds, f"{drafter} at {gamma}", milliseconds)
    use_integer_ticks(axes)
    axes.set_xlabel("gamma")
    axes.set_ylabel("milliseconds a round, drafting included")
    axes.set_ylim(bottom=0)
    finish(axes)


def _plot_predictions(axes: Axes, rows: Rows) -> None:
    top = 1.0
    for label, row in each_row(rows):
        measured, prediction = row.rates["speedup"], row.prediction
        if prediction is not None and measured is not None:
            point = prediction.predicted_speedup, measured
            plot_mark(axes, rows, label, row.drafter, point, in_legend=True)
            top = max(top, prediction.predicted_speedup, measured.value)
    axes.plot([0, top * 1.1], [0, top * 1.1], color="#999", linewidth=0.8, zorder=0)
    axes.set_xlim(0, top * 1.1)
    axes.set_ylim(0, top * 1.1)
    axes.set_xlabel("predicted speedup (Theorem 3.8)")
    axes.set_ylabel("measured speedup")
    finish(axes)
