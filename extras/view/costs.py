"""The time of the target's calls, and the tokens of a round against its cost."""

import statistics
from collections.abc import Mapping, Sequence

from outrider.extras.view.plotting import (
    Axes,
    Rows,
    finish,
    plot_line,
    plot_mark,
    use_integer_ticks,
)
from outrider.lab.runs.row import Row
from outrider.lab.runs.run import Run

ScoreTimes = Mapping[str, Mapping[int, float]]
"""By drafter and by the number of rows that a call scored, the median milliseconds of the call."""

SPEEDUPS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The speedups to draw a line for, if they are in range."""

FEWEST = 3
"""The fewest calls that have a median."""


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
            if len(times) >= FEWEST
        }
        for drafter, by_rows in calls.items()
    }


def plot_score_times(axes: Axes, rows: Rows, *, times: Mapping[str, ScoreTimes]) -> None:
    """Plots the time of a target call over the rows that it scores."""
    for label, curves in times.items():
        for drafter, curve in curves.items():
            if curve:
                plot_line(axes, rows, label, drafter, curve)
    use_integer_ticks(axes)
    axes.set_xlabel("rows scored in a target call")
    axes.set_ylabel("milliseconds of the call, median")
    axes.set_ylim(bottom=0)
    finish(axes)


def plot_pareto(axes: Axes, rows: Rows) -> None:
    """Plots tokens per call against the cost of a round, with lines of equal speedup.

    The front joins the drafters that no other beats both in tokens and in cost.
    """
    points = [
        (cost, rate, row.drafter, label)
        for label, run in rows.items()
        for row in run
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
        axes.plot([0, end], [0, speedup * end], color="#999", linewidth=0.6, zorder=0)
        axes.annotate(f"{speedup:g}x", (end, speedup * end), fontsize=8, ha="right", va="top")
    xs, ys = zip(*pareto_front(places), strict=True)
    axes.plot(xs, ys, color="#999", linestyle="--", linewidth=1, label="front", zorder=1)
    axes.plot([1], [1], linestyle="none", marker="|", color="#999", label="plain decoding")
    for cost, rate, drafter, label in points:
        plot_mark(axes, rows, label, drafter, (cost, rate), in_legend=True)
    axes.set_xlim(0, right)
    axes.set_ylim(0, top)
    axes.set_xlabel("cost of a round, in plain target calls")
    axes.set_ylabel("tokens per call")
    finish(axes)


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
