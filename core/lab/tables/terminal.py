"""Tables in a terminal: columns go where there is no room, and intervals are lines."""

import math
from collections.abc import Sequence
from dataclasses import replace

from rich.box import Box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from outrider.base.terminal import divided, fits, plain, visible
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval
from outrider.lab.tables.rates import SHORT, columns_of, rates_table
from outrider.lab.tables.table import Cell, Column, Figure, Table, lines_of

RULED = Box("    \n    \n ── \n    \n ── \n    \n    \n    \n")
"""A rule below the head, and above each new group of rows."""

NARROWEST, WIDEST = 8, 40
"""The characters of a line of the plot."""

STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The distances between the ticks of the plot's axis."""

TICK = 5
"""The fewest characters from one tick to the next."""


def shown(table: Table) -> list[RichTable]:
    """Returns a table for rich to print, or several that share its columns.

    Where there is no room for whole words, columns that can be spared are left out one by one, as a
    note says; the names in front are put below each other if they may be; and what is still too
    wide is divided.
    """
    result, left_out = _narrow(table), list[str]()
    can_break = any(column.kind == "text" for column in table.columns)
    spared = (column for column in table.columns if column.spare)
    for column in sorted(spared, key=lambda column: column.spare):
        if fits(result, whole=not can_break):
            break
        left_out.append(column.title)
        table = _without(table, column)
        notes = (*table.notes, f"hidden at this width: {', '.join(left_out)}")
        result = _narrow(replace(table, notes=notes))
    return divided(result)


def _narrow(table: Table) -> RichTable:
    """Returns a table for rich, with names in several lines if there is no room for it."""
    result = as_rich(table)
    if fits(result, whole=True):
        return result
    for column, shown_column in zip(table.columns, result.columns, strict=True):
        words = " ".join(map(str, shown_column.cells)).split()
        if column.kind == "name" and len(words) > result.row_count:
            # What a drafter has for itself makes its name long, but no word of it. Rich counts one
            # column of padding where padding collapses, but the first column has two.
            shown_column.no_wrap, shown_column.min_width = False, None
            shown_column.width = max(map(len, words)) + 1
    return result


def as_rich(table: Table) -> RichTable:
    """Returns a table for rich, with all of its columns."""
    caption = plain("\n".join(table.notes)) if table.notes else None
    title = escape(visible(table.title)) or None
    result = RichTable(title=title, caption=caption, box=RULED, collapse_padding=True)
    result.title_justify = result.caption_justify = "left"
    groups = [(list(map(_cell, row, table.columns)), is_new) for row, is_new in table.groups()]
    for index, column in enumerate(table.columns):
        heading = plain(column.heading)
        if column.kind == "text":
            result.add_column(heading, overflow="fold")
            continue
        texts = [heading, *(cells[index] for cells, _ in groups)]
        result.add_column(
            heading,
            justify="right" if column.kind == "figure" else "left",
            no_wrap=True,
            min_width=max(cell_len(line) for text in texts for line in text.plain.split("\n")),
        )
    for number, (cells, is_new) in enumerate(groups):
        if is_new:
            result.add_section()
        result.add_row(*cells, style="dim" if number in table.ceilings else None)
    return result


def _cell(cell: Cell, column: Column) -> Text:
    number, *below = lines_of(cell, column)
    between = " " if column.beside else "\n"
    return Text.assemble(plain(number), *((between + line, "dim") for line in below))


def _without(table: Table, column: Column) -> Table:
    index = table.columns.index(column)
    rows = ((*row[:index], *row[index + 1 :]) for row in table.rows)
    columns = table.columns[:index] + table.columns[index + 1 :]
    return replace(table, columns=columns, rows=tuple(rows))


def ranking_table(summary: Summary, title: str) -> Table:
    """Returns the rate that ranks with its intervals as lines, and two columns beside it.

    The lines are as long as results have room for.
    """
    tests = summary.over_plain
    names = columns_of(summary.rows, has_verdicts=any(pair.reachable for pair in tests))
    first, *others = names
    beside = [name for name in others if (first, name) != ("speedup", "alpha_tested")]
    shown = [first, *beside[: SHORT - 3]]
    rates = rates_table({"": summary.rows}, title, over_plain=tests, columns=shown)
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


def plotted(intervals: Sequence[Interval | None], width: int, ranked: int) -> tuple[str, list[str]]:
    r"""Returns an axis with its ticks, and below it each interval as a line of so many characters.

    A bar stands at 1. ranked: how many of the first ones have to fit in; what lies outside ends in
    an arrow.

    >>> print("\n".join((axis := plotted([Interval(1.2, 0.9, 1.5), None], 19, 2))[1]))
    ────│─────●────────
        │
    """
    known = [each for each in intervals[:ranked] if each is not None]
    values = [1.0, *(each.value for each in known)]
    ends = [end for each in known for end in (each.low, each.high) if end]
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
        line[place(1.0)] = "│"
        if each is not None and each.low is not None and each.high is not None:
            for column in range(place(each.low), place(each.high) + 1):
                line[column] = "┼" if column == place(1.0) else "─"
        if each is not None:
            line[place(each.value)] = "→" if each.value > high else "●"
        lines.append("".join(line))
    return "".join(axis).rstrip(), lines
