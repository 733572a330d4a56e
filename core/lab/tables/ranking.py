"""The first table of a run: five columns in rank order, with the intervals drawn as lines."""

import math
from collections.abc import Sequence
from dataclasses import replace

from outrider.base.terminal import fits
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval
from outrider.lab.tables.columns import Column
from outrider.lab.tables.rates import SHORT, columns_of, rates_table
from outrider.lab.tables.table import Figure, Table
from outrider.lab.tables.terminal import as_rich

NARROWEST, WIDEST = 8, 40
"""The characters of a line of the plot."""

STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The distances between the ticks of the plot's axis."""

TICK = 5
"""The fewest characters from one tick to the next."""


def ranking_table(summary: Summary, title: str, sort: str | None = None) -> Table:
    """Returns the rate that ranks with its intervals as lines, and two columns beside it.

    The lines are as long as results have room for. sort: the rate to sort by, in place of that one.
    """
    tests = summary.over_plain
    names = columns_of(summary.rows, has_verdicts=any(pair.reachable for pair in tests))
    first, *others = names
    beside = [name for name in others if (first, name) != ("speedup", "alpha_tested")]
    shown = [first, *beside[: SHORT - 3]]
    rates = rates_table({"": summary.rows}, title, over_plain=tests, columns=shown, sort=sort)
    figures = [row[1] for row in rates.rows]
    intervals = [each.interval if isinstance(each, Figure) else None for each in figures]
    ranked = len(intervals) - len(rates.ceilings)
    name, figure, *rest = (
        replace(column, heading=column.whole, interval=False) for column in rates.columns
    )
    for width in range(WIDEST, NARROWEST - 1, -1):
        axis, lines = plotted(intervals, width, ranked)
        rows = ((*row[:2], line, *row[2:]) for row, line in zip(rates.rows, lines, strict=True))
        columns = (name, figure, Column(axis, kind="name"), *rest)
        table = replace(rates, columns=columns, rows=tuple(rows))
        if fits(as_rich(table), whole=True):
            break
    return table


def plotted(
    intervals: Sequence[Interval | None], width: int, ranked: int, at: float = 1.0
) -> tuple[str, list[str]]:
    r"""Returns an axis with its ticks, and below it each interval as a line of so many characters.

    ranked: how many of the first ones have to fit in; what lies outside ends in an arrow.
    at: where a bar stands.

    >>> print("\n".join((axis := plotted([Interval(1.2, 0.9, 1.5), None], 19, 2))[1]))
    ────│─────●────────
        │
    """
    values = [at, *(each.value for each in intervals[:ranked] if each is not None)]
    ends = [
        end
        for each in intervals[:ranked]
        if each is not None
        for end in (each.low, each.high)
        if end
    ]
    low = max(min([*values, *ends]), 0.6 * min(values))
    high = min(max([*values, *ends]), 1.5 * max(values))
    for step in STEPS:
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if (last - first) * TICK <= width:
            break
    low, high = first * step, max(last, first + 1) * step

    def place(value: float) -> int:
        return round((min(max(value, low), high) - low) / (high - low) * (width - 1))

    axis = [" "] * (width + TICK)
    for number in range(round((high - low) / step) + 1):
        tick = f"{low + number * step:.3g}"
        start = max(0, place(low + number * step) - len(tick) // 2)
        axis[start : start + len(tick)] = tick
    lines = []
    for each in intervals:
        line = [" "] * width
        line[place(at)] = "│"
        if each is not None and each.low is not None and each.high is not None:
            for column in range(place(each.low), place(each.high) + 1):
                line[column] = "┼" if column == place(at) else "─"
        if each is not None:
            line[place(each.value)] = "→" if each.value > high else "●"
        lines.append("".join(line))
    return "".join(axis).rstrip(), lines
