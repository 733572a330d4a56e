"""Shows tables in a terminal: figures stay whole, and columns go where there is no room."""

from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from outrider.base.terminal import divided, fits, plain, visible
from outrider.lab.tables.columns import Column
from outrider.lab.tables.table import Cell, Figure, Table


def shown(table: Table) -> list[RichTable]:
    """Returns a table for rich to print, or several that share its columns.

    Where there is no room for whole words, columns that can be spared are left out one by one, as a
    note says; the names in front are put below each other if they may be; and what is still too
    wide is divided.
    """
    result, left_out = as_rich(table), list[str]()
    for column in sorted(filter(lambda column: column.spare, table.columns), key=_turn):
        if fits(result):
            break
        left_out.append(column.name.replace("_", " "))
        table = _without(table, column)
        notes = (*table.notes, f"no room for {', '.join(left_out)}")
        result = as_rich(replace(table, notes=notes))
    if table.joined and not fits(result, whole=True):
        result = as_rich(_joined(table))
    for column, shown_column in zip(table.columns, result.columns, strict=False):
        words = " ".join(map(str, shown_column.cells)).split()
        is_long = column.kind == "name" and not table.joined and len(words) > result.row_count
        if is_long and not fits(result, whole=True):
            # What a drafter has for itself makes its name long, but no word of it. Rich counts one
            # column of padding where padding collapses, but the first column has two.
            shown_column.no_wrap, shown_column.width = False, max(map(len, words)) + 1
    return divided(result)


def as_rich(table: Table) -> RichTable:
    """Returns a table for rich, with all of its columns."""
    caption = plain("\n".join(table.notes)) if table.notes else None
    title = escape(visible(table.title)) or None
    result = RichTable(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    for column in table.columns:
        if column.kind == "text":
            result.add_column(plain(column.heading), overflow="fold")
        else:
            result.add_column(
                plain(column.heading),
                justify="right" if column.kind == "figure" else "left",
                no_wrap=True,
            )
    for number, (row, is_new) in enumerate(table.groups()):
        if is_new:
            result.add_section()
        cells = map(_cell, row, table.columns)
        result.add_row(*cells, style="bold green" if number == table.first else None)
    return result


def _cell(cell: Cell, column: Column) -> str | Text:
    if not isinstance(cell, Figure):
        return plain("-" if cell is None else cell)
    number, *below = cell.lines(interval=column.interval)
    dim = [f"[dim]{line}[/]" for line in below]
    return (" " if column.beside else "\n").join([number, *dim])


def _turn(column: Column) -> int:
    return column.spare


def _without(table: Table, column: Column) -> Table:
    index = table.columns.index(column)
    rows = ((*row[:index], *row[index + 1 :]) for row in table.rows)
    columns = table.columns[:index] + table.columns[index + 1 :]
    return replace(table, columns=columns, rows=tuple(rows))


def _joined(table: Table) -> Table:
    """Returns a table with the second name of each row below the first."""
    one, _, *rest = table.columns
    name = replace(one, heading=f"{one.heading}\n{table.joined} another")
    rows = ((f"{row[0]}\n{table.joined} {row[1]}", *row[2:]) for row in table.rows)
    return replace(table, columns=(name, *rest), rows=tuple(rows))
