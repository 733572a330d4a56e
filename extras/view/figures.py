"""Figures: the plots of a comparison, each legible on a phone."""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial

from outrider.extras.view.plotting import Canvas, Figure, Plot, Rows, drawn, short
from outrider.lab.runs.labels import labelled
from outrider.lab.runs.row import Row, ceilings, drafted
from outrider.lab.runs.run import Run
from outrider.lab.statistics.intervals import FEWEST, Interval
from outrider.lab.tables.table import measured_rates

XLABELS = {
    "alpha": "alpha (overlap of p and q), 95%",
    "alpha_rule": "acceptance under the rule, 95%",
    "alpha_tested": "alpha tested (accepted of tested), 95%",
    "block_efficiency": "tokens per call, 95%",
    "speedup": "speedup over plain decoding, 95%",
}
"""The rates that are plotted with their intervals, each with its axis label."""

ScoreTimes = Mapping[str, Mapping[int, float]]
"""By drafter and by the number of rows that a call scored, the median milliseconds of the call."""

SPEEDUPS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The speedups to draw a line for, if they are in range."""

FEWEST_CALLS = 3
"""The fewest calls that have a median."""


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
        plots["tokens_against_cost"] = _plot_pareto
    if any(len(curve) > 1 for run in times.values() for curve in run.values()):
        plots["time_over_rows"] = partial(_plot_score_times, times=times)
    if len(_timed_tasks(rows)) > 1:
        plots["speedup_by_task"] = _plot_speedups_by_task
    return {name: drawn(plot, rows=rows) for name, plot in plots.items()}


def _plot_rate(on: Canvas, rate: str) -> None:
    on.height(0.9 + 0.24 * sum(map(len, on.rows.values())))
    labels: list[str] = []
    below = [row for run in on.rows.values() for row in ceilings(run)]
    for label, row in on.each_row():
        figure = row.rates[rate]
        if figure is not None:
            name, style = labelled(row.name, label), on.style(row.drafter)
            if row in below:
                style |= {"color": "#999"}
                on.axes.axhline(len(labels) - 0.5, color="#999", linewidth=0.8)
            on.interval(figure, len(labels), name, style)
            labels.append(name)
    on.axes.set_yticks(range(len(labels)), [short(label) for label in labels])
    on.axes.set_ylim(len(labels) - 0.5, -0.5)
    shown = [row.rates[rate] for _, row in on.each_row()]
    has_ends = any(figure is not None and figure.low is not None for figure in shown)
    if rate in ("speedup", "block_efficiency"):
        on.axes.axvline(1, color="#999", linewidth=0.8, zorder=0)
        on.axes.set_xlim(0, on.axes.dataLim.xmax * 1.05)
    else:
        on.axes.set_xlim(-0.02, 1.02)
    on.axes.grid(axis="x", alpha=0.3)
    on.axes.set_xlabel(XLABELS[rate] if has_ends else XLABELS[rate].removesuffix(", 95%"))


def _plot_depths(on: Canvas) -> None:
    for label, row in on.each_row():
        points = _by_depth(row.depths)
        if any(points.values()):
            on.line(label, row.drafter, points)
    on.axes.set_ylim(-0.02, 1.02)
    on.finish("depth of the draft token", "accepted, where the draft got there", counts=True)


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


def _plot_tokens(on: Canvas) -> None:
    for label, row in on.each_row():
        field = "tokens_at" if "tokens_at" in row.depths else "tokens_tested_at"
        values = row.depths.get(field, ())
        if any((value or 1) > 1 for value in values):
            points = dict(enumerate(values, start=1))
            on.line(label, row.drafter, points, mark="")
        decoded = row.rates["block_efficiency_uncut"]
        if decoded is not None and decoded.value > 1:
            on.mark(label, row.drafter, row.gamma, decoded)
    y = "tokens per call, if no text were cut"
    on.finish("gamma (lines: expected; marks: decoded)", y, counts=True)


def _plot_speedups(on: Canvas) -> None:
    for label, row in on.each_row():
        measured, prediction = row.rates["speedup"], row.prediction
        if prediction is None or measured is None:
            continue
        tokens = row.depths["tokens_tested_at"]
        expected = {
            gamma: (value or 1) / (gamma * prediction.cost_ratio + 1)
            for gamma, value in enumerate(tokens, start=1)
        }
        on.line(label, row.drafter, expected, mark="")
        on.mark(label, row.drafter, row.gamma, measured)
    on.axes.axhline(1, color="#999", linewidth=0.8, zorder=0)
    on.finish("gamma (lines: expected; marks: measured)", "speedup", counts=True, from_0=True)


def _timed(rows: Rows) -> list[Row]:
    """Returns the rows of the first run that have a speedup, without plain decoding."""
    run = next(iter(rows.values()))
    return [row for row in run if row.rates["speedup"] and drafted(row)]


def _timed_tasks(rows: Rows) -> list[str]:
    """Returns the tasks of the first run that have a speedup."""
    tasks = (task for row in _timed(rows) for task, rates in row.tasks.items() if rates["speedup"])
    return list(dict.fromkeys(tasks))


def _plot_speedups_by_task(on: Canvas) -> None:
    """Plots a band for each task, in which each drafter has a line of its own."""
    tasks, run = _timed_tasks(on.rows), _timed(on.rows)
    has_ends = False
    on.height(1.2 + len(tasks) * (0.12 + 0.11 * len(run)))
    for number, task in enumerate(tasks):
        for line, row in enumerate(run):
            speedup = row.tasks.get(task, {}).get("speedup")
            if speedup is not None:
                has_ends |= speedup.low is not None
                height = number - 0.4 + 0.8 * (line + 0.5) / len(run)
                style = on.style(row.drafter)
                on.interval(speedup, height, f"{row.drafter}, {task}", style)
    for row in run:
        on.axes.plot([], [], linestyle="none", label=row.drafter, **on.style(row.drafter))
    on.axes.axvline(1, color="#999", linewidth=0.8, zorder=0)
    on.axes.set_yticks(range(len(tasks)), [short(task) for task in tasks])
    on.axes.set_ylim(len(tasks) - 0.5, -0.5)
    on.axes.set_xlim(0, on.axes.dataLim.xmax * 1.05)
    on.finish("speedup over plain decoding" + ", 95%" * has_ends)
    for number in range(1, len(tasks)):
        on.axes.axhline(number - 0.5, color="#999", linewidth=0.4, alpha=0.5)


def score_times(run: Run) -> ScoreTimes:
    """Returns how long the target's calls took, by the rows that they scored.

    A call scores a row for each token of the draft, and one more. The first call of a text reads
    the prompt, and is left out.
    """
    calls: dict[str, dict[int, list[float]]] = {}
    for measurement in run.measurements:
        steps = measurement.decoding.steps if measurement.decoding else ()
        for step in steps[1:]:
            if step.stop is None:  # otherwise not all draft tokens are counted
                by_rows = calls.setdefault(measurement.drafter, {})
                by_rows.setdefault(step.drafted + 1, []).append(1000 * step.score)
    return {
        drafter: {
            rows: statistics.median(times)
            for rows, times in sorted(by_rows.items())
            if len(times) >= FEWEST_CALLS
        }
        for drafter, by_rows in calls.items()
    }


def _plot_score_times(on: Canvas, *, times: Mapping[str, ScoreTimes]) -> None:
    for label, curves in times.items():
        for drafter, curve in curves.items():
            if curve:
                on.line(label, drafter, curve)
    on.finish(
        "rows scored in a target call", "milliseconds of the call, median", counts=True, from_0=True
    )


def _plot_pareto(on: Canvas) -> None:
    """Plots tokens per call against the cost of a round, with lines of equal speedup.

    The front joins the drafters that no other beats both in tokens and in cost.
    """
    points = [
        (cost, rate, row.drafter, label)
        for label, row in on.each_row()
        if (cost := round_cost(row)) is not None and (rate := row.rates["block_efficiency"])
    ]
    places = [(cost, rate.value) for cost, rate, _, _ in points] + [(1.0, 1.0)]  # plain decoding
    right = 1.1 * max(cost for cost, _ in places)
    top = 1.15 * max(tokens for _, tokens in places)
    ratios = [tokens / cost for cost, tokens in places]
    for speedup in SPEEDUPS:
        if not 0.7 * min(ratios) < speedup < 1.4 * max(ratios):
            continue
        end = min(right, top / speedup)
        on.axes.plot([0, end], [0, speedup * end], color="#999", linewidth=0.6, zorder=0)
        on.axes.annotate(f"{speedup:g}x", (end, speedup * end), fontsize=8, ha="right", va="top")
    xs, ys = zip(*pareto_front(places), strict=True)
    on.axes.plot(xs, ys, color="#999", linestyle="--", linewidth=1, label="front", zorder=1)
    on.axes.plot([1], [1], linestyle="none", marker="|", color="#999", label="plain decoding")
    for cost, rate, drafter, label in points:
        on.mark(label, drafter, cost, rate, in_legend=True)
    on.axes.set_xlim(0, right)
    on.axes.set_ylim(0, top)
    on.finish("cost of a round, in plain target calls", "tokens per call")


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the points (cost, tokens), by cost, that no other point beats or equals in both.

    >>> pareto_front([(1.0, 1.0), (2.0, 3.0), (2.0, 2.0), (3.0, 3.0), (0.5, 0.5)])
    [(0.5, 0.5), (1.0, 1.0), (2.0, 3.0)]
    """
    front: list[tuple[float, float]] = []
    for cost, tokens in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or tokens > front[-1][1]:
            front.append((cost, tokens))
    return front


def round_cost(row: Row) -> float | None:
    """Returns what a round costs in plain target calls; None if the drafter drafted nothing."""
    prediction, counts = row.prediction, row.counts
    if prediction is None or counts is None or not counts.rounds:
        return None
    drafting = prediction.cost_ratio * counts.drafted / counts.rounds
    return drafting + prediction.score_ratio + prediction.overhead
