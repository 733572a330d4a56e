"""Formats: any table as Markdown, LaTeX or CSV, and which of its figures a test has told apart."""

import csv
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from itertools import pairwise, zip_longest
from textwrap import wrap

from rich.table import Table
from rich.text import Text

from outrider.lab.runs.conclusion import history
from outrider.lab.runs.pair_table import out_of_reach
from outrider.lab.runs.summary import Summary
from outrider.lab.runs.table import table
from outrider.lab.statistics.pairs import LEVEL

STARS = {LEVEL: "*", 0.01: "**", 0.001: "***"}
"""By p-value, the mark of a difference with a smaller one."""

CAPITALS = ("gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "phi", "psi", "omega")
"""The Greek letters whose capital has a command in LaTeX; the others look Latin."""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "±": r"$\pm$",
    "«": r"$\ll$",
    "»": r"$\gg$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
"""By character, what stands for it in LaTeX."""


def stars(p: float) -> str:
    """Returns the mark of a p-value.

    >>> stars(0.2), stars(0.04), stars(0.0004)
    ('', '*', '***')
    """
    return max((mark for level, mark in STARS.items() if p < level), default="", key=len)


def marks(summary: Summary) -> dict[tuple[str, str], str]:
    """Returns the stars of the figures of a run, by the tests of its pairs.

    With a reference, those that differ from it. Otherwise the largest figure of a rate, if it is
    above each of the others that it was compared with.
    """
    found: dict[tuple[str, str], str] = {}
    for rate in summary.compared_rates:
        pairs = [pair for pair in summary.pairs if pair.rate == rate]
        if summary.reference is not None:
            found |= {(pair.other, rate): stars(pair.p_holm) for pair in pairs}
            continue
        for name in {pair.one for pair in pairs} | {pair.other for pair in pairs}:
            own = [pair for pair in pairs if pair.one == name]
            own += [pair.opposite for pair in pairs if pair.other == name]
            if all(pair.difference.value > 0 for pair in own):
                found[name, rate] = stars(max(pair.p_holm for pair in own))
    return {key: mark for key, mark in found.items() if mark}


def marks_note(summary: Summary) -> str:
    """Returns what the stars of `marks` mean."""
    levels = ", ".join(f"{mark} p < {level:g}" for level, mark in STARS.items())
    if summary.reference is not None:
        return f"{levels}: differs from {summary.reference}, by Holm over one rate"
    return f"{levels}: above each of the others, by Holm over one rate"


def rates_table(summaries: Mapping[str, Summary], title: str) -> Table:
    """Returns the rates of one or more runs, by label, with the stars of each run's tests."""
    rows = {label: summary.rows for label, summary in summaries.items()}
    starred = {label: marks(summary) for label, summary in summaries.items()}
    past = [line for summary in summaries.values() for line in history(summary.run)]
    return table(rows, title, starred, [*star_notes(summaries.values()), *past])


def star_notes(summaries: Iterable[Summary]) -> list[str]:
    """Returns what stars in a table of some runs mean, or why there are none."""
    compared = [summary for summary in summaries if summary.pairs]
    if notes := dict.fromkeys(marks_note(summary) for summary in compared if marks(summary)):
        return list(notes)
    few = [
        line
        for summary in compared
        for line in out_of_reach(
            min(pair.prompts for pair in summary.pairs), max(pair.family for pair in summary.pairs)
        )
    ]
    return list(dict.fromkeys(few)) or ["no stars: no test tells these apart"] * bool(compared)


def as_markdown(content: Table) -> str:
    """Returns a table in GitHub's Markdown, with its title above and its caption below."""
    heads, rows, title, caption = contents(content)
    lines = [f"**{title}**", ""] if title else []
    escaped = [[re.sub(r"([|<`\\])", r"\\\1", cell) for cell in row] for row in (heads, *rows)]
    lines.append(f"| {' | '.join(escaped[0])} |")
    aligned = ["---:" if column.justify == "right" else "---" for column in content.columns]
    lines.append(f"|{'|'.join(aligned)}|")
    lines += [f"| {' | '.join(row)} |" for row in escaped[1:]]
    lines += ["", *caption] if caption else []
    return "\n".join(lines) + "\n"


def as_latex(content: Table) -> str:
    """Returns a table in LaTeX, with the rules of the package `booktabs`.

    Names in other scripts than Latin and Greek need the packages that a text in them needs.
    """
    *_, title, caption = contents(content)
    said = ". ".join(filter(None, [title, *caption]))
    aligned = "".join("r" if column.justify == "right" else "l" for column in content.columns)
    heads = [_heading(column.header).split("\n") for column in content.columns]
    columns = [map(_lines, column.cells) for column in content.columns]
    rows = [heads, *map(list, zip(*columns, strict=True))]
    is_wide = _width([[[" ".join(cell)] for cell in row] for row in rows]) > LINE
    if is_wide:  # a name is one text, whatever its length
        rows = [
            [
                _wrapped(cell) if kind == "l" else cell
                for cell, kind in zip(row, aligned, strict=True)
            ]
            for row in rows
        ]
    else:
        rows = [[[" ".join(cell)] for cell in row] for row in rows]
    lines = [r"% \usepackage{booktabs}", r"\begin{table}", r"\centering"]
    lines += [rf"\caption{{{_escaped(said)}}}"] if said else []
    lines += [r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"] if is_wide else []
    lines += [rf"\begin{{tabular}}{{{aligned}}}", r"\toprule"]
    lines += [*_latex_lines(rows[0]), r"\midrule"]
    for row, shown in zip(rows[1:], content.rows, strict=True):
        lines += _latex_lines(row)
        lines[-1] += r" \midrule" if shown.end_section else r" \addlinespace" * is_wide
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _latex_lines(row: Sequence[Sequence[str]]) -> list[str]:
    """Returns a row as lines of a tabular: the first of all cells, and then what stands below."""
    lines = []
    for number, texts in enumerate(zip_longest(*row, fillvalue="")):
        is_small = (number and text.startswith(("[", "p ", "±")) for text in texts)
        cells = (
            (r"\scriptsize " if small else "") + _escaped(text)
            for text, small in zip(texts, is_small, strict=True)
        )
        lines.append(" & ".join(cells) + r" \\")
    return lines


def _wrapped(cell: Sequence[str]) -> list[str]:
    """Returns the lines of a cell of words, those that are long in several."""
    return [part for line in cell for part in wrap(line, NAME) or [""]]


def _width(rows: Sequence[Sequence[Sequence[str]]]) -> int:
    """Returns the characters of the widest line that a table with these cells can have."""
    return sum(
        max(len(line) for cell in column for line in cell) for column in zip(*rows, strict=True)
    )


def as_csv(content: Table) -> str:
    """Returns a table as comma-separated values, with the headings first and no run left out."""
    heads, rows, *_ = contents(content)
    for above, row in pairwise(rows if heads[0] == "run" else []):
        row[0] = row[0] or above[0]
    file = StringIO()
    csv.writer(file, lineterminator="\n").writerows([heads, *rows])
    return file.getvalue()


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
}
"""By name, what writes a table."""

NAME = 18
"""The characters of a name that stay in one line of a wide table."""

LINE = 70
"""The characters that fit into a line in LaTeX; wider tables have intervals below their figures."""

SUFFIXES = {"markdown": "md", "latex": "tex", "csv": "csv"}
"""By format, how the names of its files end."""


def contents(table: Table) -> tuple[list[str], list[list[str]], str, Sequence[str]]:
    """Returns the headings, the rows, the title and the lines of the caption as plain text."""
    heads = [_heading(column.header).replace("\n", " ") for column in table.columns]
    columns = [[" ".join(_lines(cell)) for cell in column.cells] for column in table.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    caption = _text(table.caption).splitlines() if table.caption else []
    return heads, rows, _text(table.title) if table.title else "", caption


def _text(content: object) -> str:
    return content.plain if isinstance(content, Text) else Text.from_markup(str(content)).plain


def _heading(content: object) -> str:
    """Returns a heading, in one line or more; words that were cut to save room are whole."""
    whole = _text(content).replace("-\n", "")
    return whole.replace("expect.", "expected").replace("accept.", "acceptance")


def _lines(content: object) -> list[str]:
    """Returns the lines of a cell: a figure, and in brackets the interval below it."""
    first, *below = _text(content).split("\n")
    if below and (ends := re.fullmatch(r"([-+.\d]+?)[- ]([-+.\d]+)", below[0])):
        below[0] = f"[{ends[1]}, {ends[2]}]"
    return [first, *below]


def _escaped(text: str) -> str:
    """Returns text as LaTeX shows it; a bracket or star in front belongs to no line before."""
    escaped = "".join(SPECIAL.get(character, character) for character in text)
    escaped = re.sub("[\u0391-\u03a9\u03b1-\u03c9]", _greek, escaped)
    escaped = re.sub(r"(?<![\w.)])-(?=\.?\d)", "$-$", escaped)
    escaped = re.sub("-(?=-)", "-{}", escaped)
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped


def _greek(letter: re.Match[str]) -> str:
    """Returns the command for a Greek letter; one that looks Latin has none, and stays."""
    words = unicodedata.name(letter[0]).lower().replace("lamda", "lambda").split()
    name = words[-1] if "small" in words else words[-1].title()
    has_none = name == "omicron" or not ("small" in words or words[-1] in CAPITALS)
    return letter[0] if has_none else rf"$\{name}$"
