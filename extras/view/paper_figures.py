"""The figure of Chen et al. (2302.01318)."""

import statistics
from collections.abc import Mapping, Sequence
from functools import partial

from outrider import theory
from outrider.extras.view.plotting import LINE_STYLES, Canvas, Figure, drawn
from outrider.lab.runs.row import Row, drafted
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.layouts import samplings

TOKENS = 128
"""The tokens of a sample."""

PANELS = (f"seconds for {TOKENS} tokens", "tokens per call / (gamma + 1)", "milliseconds a round")


def chen_figure1(summaries: Sequence[Summary]) -> Figure:
    """Returns Chen et al.'s (2302.01318) Figure 1: three panels over gamma.

    From the left: the time of 128 tokens, with its standard deviation over texts; the efficiency,
    which is the tokens per call over gamma + 1; and the time of a loop, which is a round.
    """
    groups: dict[str, list[Summary]] = {}
    for summary, sampling in zip(summaries, samplings(summaries), strict=True):
        groups.setdefault(sampling, []).append(summary)
    rows = {str(number): summary.rows for number, summary in enumerate(summaries)}
    plots = (partial(_panel, groups=groups, index=index) for index in range(len(PANELS)))
    return drawn(*plots, rows=rows)


def _panel(on: Canvas, *, groups: Mapping[str, Sequence[Summary]], index: int) -> None:
    for number, (sampling, runs) in enumerate(groups.items()):
        curves: dict[str, dict[int, tuple[float, float]]] = {}
        for summary in runs:
            for row in (row for row in summary.rows if row.counts and drafted(row)):
                curves.setdefault(row.drafter, {})[row.gamma] = _figures(summary, row)[index]
        for drafter, points in curves.items():
            gammas = sorted(points)
            style = on.style(drafter) | {"linestyle": LINE_STYLES[number % len(LINE_STYLES)]}
            heights, spreads = zip(*(points[gamma] for gamma in gammas), strict=True)
            name = None if index else f"{drafter}, {sampling}"  # one legend serves all panels
            ends = spreads if any(spreads) else None
            on.axes.errorbar(gammas, heights, ends, label=name, **style)
    on.finish("gamma (there: K)", PANELS[index], counts=True, from_0=True)


def _figures(summary: Summary, row: Row) -> list[tuple[float, float]]:
    """Returns a row's figure in each panel with its standard deviation, which is 0 for none."""
    tokens = row.rates["block_efficiency"]
    assert tokens and row.counts and row.seconds, "a row that was not decoded has none of them"
    times = [
        TOKENS * m.decoding.seconds / m.decoding.counts.emitted
        for m in summary.run.measurements
        if m.decoding is not None and m.drafter == row.drafter and m.prompt in summary.prompts
    ]
    return [
        (statistics.mean(times), statistics.stdev(times) if len(times) > 1 else 0.0),
        (theory.filled_share(tokens.value, row.gamma), 0.0),
        (1000 * row.seconds["total"] / row.counts.rounds, 0.0),
    ]
