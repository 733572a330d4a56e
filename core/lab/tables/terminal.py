"""Shows tables in a terminal: figures stay whole, and columns go where there is no room."""

from dataclasses import replace

from rich.box import Box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from outrider.base.terminal import divided, fits, plain, visible
from outrider.lab.tables.columns import Column
from outrider.lab.tables.table import Cell, Figure, Table

RULED = Box("    \n    \n ── \n    \n ── \n    \n    \n    \n")
"""A rule below the head, and above each new group of rows."""


def shown(table: Table) -> list[RichTable]:
    """Returns a table for rich to print, or several that share its columns.

    Where there is no room for whole words, columns that can be spared are left out one by one, as a
    note says; the names in front are put below each other if they may be; and what is still too
    wide is divided.
    """
    result, left_out = _narrow(table), list[str]()
    can_break = any(column.kind == "text" for column in table.columns)
    for column in sorted(filter(lambda column: column.spare, table.columns), key=_turn):
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
    for index, column in enumerate(table.columns):
        if column.kind == "text":
            result.add_column(plain(column.heading), overflow="fold")
        else:
            column_cells = [row[index] for row in table.rows]
            lines = [
                *column.heading.split("\n"),
                *(it for cell in column_cells for it in _lines(cell, column)),
            ]
            result.add_column(
                plain(column.heading),
                justify="right" if column.kind == "figure" else "left",
                no_wrap=True,
                min_width=max(cell_len(visible(line)) for line in lines),
            )
    for number, (row, is_new) in enumerate(table.groups()):
        if is_new:
            result.add_section()
        cells = map(_cell, row, table.columns)
        result.add_row(*cells, style="dim" if number in table.ceilings else None)
    return result


def _cell(cell: Cell, column: Column) -> str | Text:
    if not isinstance(cell, Figure):
        return plain("-" if cell is None else cell)
    number, *below = cell.lines(interval=column.interval)
    dim = [f"[dim]{line}[/]" for line in below]
    return (" " if column.beside else "\n").join([number, *dim])


def _lines(cell: Cell, column: Column) -> list[str]:
    """Returns the lines of a cell as they are shown."""
    if not isinstance(cell, Figure):
        return ("-" if cell is None else cell).split("\n")
    lines = cell.lines(interval=column.interval)
    return [" ".join(lines)] if column.beside else lines


def _turn(column: Column) -> int:
    return column.spare


def _without(table: Table, column: Column) -> Table:
    index = table.columns.index(column)
    rows = ((*row[:index], *row[index + 1 :]) for row in table.rows)
    columns = table.columns[:index] + table.columns[index + 1 :]
    return replace(table, columns=columns, rows=tuple(rows))
