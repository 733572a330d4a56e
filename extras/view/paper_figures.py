"""The figures of papers: Leviathan et al.'s (2211.17192), Chen et al.'s (2302.01318)."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle

import numpy as np

from outrider import theory
from outrider.extras.view.plotting import COLOURS, LINE_STYLES, Canvas, Figure, as_png, drawn
from outrider.lab.runs.row import Row, drafted
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.layouts import samplings
from outrider.theory import Values

ALPHAS = np.linspace(0, 1, 101)[:-1].tolist()
"""The alphas of a curve."""

TRACED = 24
"""How many tokens the traced text has."""

TOKENS = 128
"""The tokens of a sample."""


def figure(name: str, values: Values) -> Figure:
    return drawn(lambda on: FIGURES[name](on, values), rows={})


def plot_tokens(on: Canvas, values: Values) -> None:
    """Figure 2: the expected tokens per call."""
    for gamma, colour in zip(values.gammas, cycle(COLOURS), strict=False):
        tokens = [theory.expected_tokens(alpha, gamma) for alpha in ALPHAS]
        on.axes.plot(ALPHAS, tokens, color=colour, label=f"gamma {gamma}")
    _finish(on, "expected tokens per call")


def plot_optimal_gamma(on: Canvas, values: Values) -> None:
    """Figure 3: the gamma with the largest expected speedup."""
    for c, colour in zip(values.costs, cycle(COLOURS), strict=False):
        gammas = [theory.optimal_gamma(alpha, c) for alpha in ALPHAS]
        on.axes.step(ALPHAS, gammas, where="mid", color=colour, label=f"c {c:g}")
    _finish(on, "gamma with the largest speedup")


def plot_speedup(on: Canvas, values: Values) -> None:
    """Figure 4: the speedup, and the factor by which the arithmetic operations grow."""
    for gamma, colour in zip(values.gammas, cycle(COLOURS), strict=False):
        speedups = [theory.walltime_improvement(alpha, gamma, values.costs[0]) for alpha in ALPHAS]
        operations = [theory.operations(alpha, gamma, values.c_hat) for alpha in ALPHAS]
        on.axes.plot(ALPHAS, speedups, color=colour, label=f"gamma {gamma}")
        on.axes.plot(ALPHAS, operations, color=colour, linestyle="--")
    _finish(on, "speedup (lines), operations (dashes)")


def plot_trace(on: Canvas, values: Values) -> None:
    """Figure 5: the target's and the drafter's calls over time, for a text of `TRACED` tokens.

    Each text takes the expected number of rounds. The last row is plain decoding.
    """
    alpha, c = values.alphas[0], values.costs[0]
    names = []
    for row, gamma in enumerate([*values.gammas, 0]):
        rounds = math.ceil(TRACED / theory.expected_tokens(alpha, gamma))
        drafting = gamma * c
        starts = [number * (drafting + 1) for number in range(rounds)]
        drafts = [(start + step * c, c) for start in starts for step in range(gamma)]
        calls = [(start + drafting, 1.0) for start in starts]
        line = partial(on.axes.broken_barh, yrange=(row - 0.3, 0.6), edgecolor="white")
        line(drafts, facecolors=COLOURS[5], linewidth=0.1)
        line(calls, facecolors=COLOURS[3], linewidth=0.4)
        names.append(f"gamma {gamma}" if gamma else "plain")
    for colour, label in ((COLOURS[3], "target"), (COLOURS[5], "drafter")):
        on.axes.plot([], [], color=colour, linewidth=6, label=label)
    on.axes.set_yticks(range(len(names)), names)
    on.axes.invert_yaxis()
    on.finish(f"time of {TRACED} tokens, in target calls (alpha {alpha:g}, c {c:g})")


FIGURES: dict[str, Callable[[Canvas, Values], None]] = {
    "figure2": plot_tokens,
    "figure3": plot_optimal_gamma,
    "figure4": plot_speedup,
    "figure5": plot_trace,
}
"""By name, the function that draws it."""


def as_file(name: str, values: Values) -> bytes:
    return as_png(figure(name, values))


figure2: Callable[[Values], bytes] = partial(as_file, "figure2")
figure3: Callable[[Values], bytes] = partial(as_file, "figure3")
figure4: Callable[[Values], bytes] = partial(as_file, "figure4")
figure5: Callable[[Values], bytes] = partial(as_file, "figure5")


def _finish(on: Canvas, label: str) -> None:
    on.axes.set_xlim(0, 1)
    on.finish("alpha", label, from_0=True)


def chen_figure1(summaries: Sequence[Summary]) -> Figure:
    """Returns Chen et al.'s (2302.01318) Figure 1: three panels over gamma.

    From the left: the time of 128 tokens, with its standard deviation over texts; the efficiency,
    which is the tokens per call over gamma + 1; and the time of a loop, which is a round.
    """
    groups: dict[str, list[Summary]] = {}
    for summary, sampling in zip(summaries, samplings(summaries), strict=True):
        groups.setdefault(sampling, []).append(summary)
    rows = {str(number): summary.rows for number, summary in enumerate(summaries)}
    panels = {
        f"seconds for {TOKENS} tokens": _sample_seconds,
        "tokens per call / (gamma + 1)": _efficiency,
        "milliseconds a round": _round_milliseconds,
    }
    plots = (
        partial(_panel, groups=groups, label=label, point=point) for label, point in panels.items()
    )
    return drawn(*plots, rows=rows)


Point = tuple[float, float]
"""A figure with its standard deviation, which is 0 where there is none."""


def _panel(
    on: Canvas,
    *,
    groups: Mapping[str, Sequence[Summary]],
    label: str,
    point: Callable[[Summary, Row], Point],
) -> None:
    for number, (sampling, runs) in enumerate(groups.items()):
        curves: dict[str, dict[int, Point]] = {}
        for summary in runs:
            for row in (row for row in summary.rows if row.counts and drafted(row)):
                curves.setdefault(row.drafter, {})[row.gamma] = point(summary, row)
        for drafter, points in curves.items():
            gammas = sorted(points)
            style = on.style(drafter) | {"linestyle": LINE_STYLES[number % len(LINE_STYLES)]}
            heights, spreads = zip(*(points[gamma] for gamma in gammas), strict=True)
            # One legend serves all panels.
            name = f"{drafter}, {sampling}" if point is _sample_seconds else None
            ends = spreads if any(spreads) else None
            on.axes.errorbar(gammas, heights, ends, label=name, **style)
    on.finish("gamma (there: K)", label, counts=True, from_0=True)


def _sample_seconds(summary: Summary, row: Row) -> Point:
    times = [
        TOKENS * m.decoding.seconds / m.decoding.counts.emitted
        for m in summary.run.measurements
        if m.decoding is not None and m.drafter == row.drafter and m.prompt in summary.prompts
    ]
    return statistics.mean(times), statistics.stdev(times) if len(times) > 1 else 0.0


def _efficiency(summary: Summary, row: Row) -> Point:
    tokens = row.rates["block_efficiency"]
    assert tokens is not None, "a row that was not decoded has no counts or times"
    return theory.filled_share(tokens.value, row.gamma), 0.0


def _round_milliseconds(summary: Summary, row: Row) -> Point:
    assert row.seconds is not None and row.counts is not None, (
        "a row that was not decoded has no counts or times"
    )
    return 1000 * row.seconds["total"] / row.counts.rounds, 0.0
