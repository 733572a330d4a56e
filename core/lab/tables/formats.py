"""Writes tables as Markdown, LaTeX and CSV."""

import csv
import re
from collections.abc import Sequence
from html import escape
from io import StringIO
from itertools import zip_longest

from tabulate import LATEX_ESCAPE_RULES, SEPARATING_LINE, tabulate

from outrider.lab.tables.table import Cell, Table, lines_of

LINE = 70
"""The characters that fit into a line in LaTeX; wider tables have intervals below their figures."""


def as_markdown(table: Table) -> str:
    """Returns a table in GitHub's Markdown, with its title above and its notes below."""
    rows = [[_in_markdown(" ".join(cell)) for cell in row] for row, _ in _lines_of_rows(table)]
    titles = [_in_markdown(column.title) for column in table.columns]
    body = tabulate(rows, titles, "pipe", colalign=_sides(table), disable_numparse=True)
    above = [f"**{_in_markdown(table.title)}**", ""] if table.title else []
    below = ["", *map(_in_markdown, table.notes)] if table.notes else []
    return "\n".join([*above, body, *below]) + "\n"


def _in_markdown(text: str) -> str:
    """Returns text that is no cell's end, tag, code, link or image."""
    return re.sub(r"([|<`\\]|\](?=[(\[]))", r"\\\1", text)


def as_latex(table: Table) -> str:
    """Returns a table in LaTeX, with the rules of the package `booktabs`.

    Names in other scripts than Latin need the packages that a text in them needs.
    """
    rows = _lines_of_rows(table)
    titles = [column.title for column in table.columns]
    texts = [titles, *([" ".join(cell) for cell in row] for row, _ in rows)]
    is_wide = sum(max(map(len, column)) for column in zip(*texts, strict=True)) > LINE
    lines = [titles]
    if is_wide:
        lines = _below([column.whole.split("\n") for column in table.columns])
    for number, (row, is_new) in enumerate(rows):
        lines += [SEPARATING_LINE] * (is_new or number == 0)
        lines += _below(row) if is_wide else [[" ".join(cell) for cell in row]]
    body = tabulate(lines, tablefmt="latex_booktabs", colalign=_sides(table), disable_numparse=True)
    said = ". ".join(filter(None, [table.title, *table.notes]))
    caption = said.translate(str.maketrans(LATEX_ESCAPE_RULES))
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            *([rf"\caption{{{caption}}}"] if caption else []),
            *([r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"] if is_wide else []),
            re.sub(r"(?m)^ +| +(?= )", "", body),
            r"\end{table}",
            "",
        ]
    )


def as_html(table: Table) -> str:
    """Returns a table as HTML, with its title above and its notes below."""
    rows = [[" ".join(cell) for cell in row] for row, _ in _lines_of_rows(table)]
    titles = [column.title for column in table.columns]
    body = tabulate(rows, titles, "html", colalign=_sides(table), disable_numparse=True)
    for cell in ("th", "td"):  # a notebook would put names to the right
        body = body.replace(f"<{cell}>", f'<{cell} style="text-align: left;">')
    body = f'<div style="overflow-x: auto; white-space: nowrap">{body}</div>'
    said = (f"<p>{escape(line)}</p>" for line in table.notes)
    return "\n".join([f"<b>{escape(table.title)}</b>", body, *said])


def as_csv(table: Table) -> str:
    """Returns a table as comma-separated values, the headings first and the run in each row."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_no_formula(column.title) for column in table.columns)
    for row in table.rows:
        pairs = zip(map(_no_formula, row), table.columns, strict=True)
        writer.writerow(" ".join(lines_of(*pair, brackets=True)) for pair in pairs)
    return file.getvalue()


def _no_formula(cell: Cell) -> Cell:
    """Returns a cell that a spreadsheet takes for text, as it is, or after an apostrophe."""
    is_text = isinstance(cell, str) and re.match(r"[=+@\t\r-].", cell, re.DOTALL)
    is_number = is_text and re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", str(cell))
    return f"'{cell}" if is_text and not is_number else cell


FORMATS = {"markdown": as_markdown, "latex": as_latex, "csv": as_csv}
"""By name, what writes a table."""

SUFFIXES = {"markdown": "md", "latex": "tex", "csv": "csv"}
"""By format, how the names of its files end."""


def _lines_of_rows(table: Table) -> list[tuple[list[list[str]], bool]]:
    """Returns the lines of each cell of each row, and whether the row is the first of its run."""
    return [
        ([lines_of(*pair, brackets=True) for pair in zip(row, table.columns, strict=True)], is_new)
        for row, is_new in table.groups()
    ]


def _below(cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns a row as several: the first lines of all cells, and then what stands below."""
    return [list(texts) for texts in zip_longest(*cells, fillvalue="")]


def _sides(table: Table) -> list[str]:
    return ["right" if column.kind == "figure" else "left" for column in table.columns]
