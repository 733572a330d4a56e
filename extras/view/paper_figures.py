"""The figure of Chen et al. (2302.01318)."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from outrider import theory
from outrider.extras.view.plotting import LINE_STYLES, Canvas, Figure, drawn
from outrider.lab.runs.row import Row, drafted
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.layouts import samplings

TOKENS = 128
"""The tokens of a sample."""


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
