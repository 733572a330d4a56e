"""What commands print, as text or as JSON, and how to print untrusted text safely."""

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

QUIET, JSON, TRACEBACK = "OUTRIDER_QUIET", "OUTRIDER_JSON", "OUTRIDER_TRACEBACK"
"""The environment variables that `--quiet`, `--json` and `--traceback` set to 1, for jobs in other
processes too."""

_CONTROLS = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that move the cursor, change colours, reverse text or can't be encoded; no newline."""

NARROWEST = 20
"""The columns of a terminal below which its width counts as unknown."""


class Room(Console):
    """A console that has room for the longest word of each table; its lines may be too long."""

    def print(self, *objects: Any, **options: Any) -> None:
        unlimited = self.options.update(max_width=10_000)
        tables = [each for each in objects if isinstance(each, Table)]
        needed = [Measurement.get(self, unlimited, each).minimum for each in tables]
        own, self._width = self._width, max([self.width, *needed]) if needed else self._width
        try:
            super().print(*objects, **options)
        finally:
            self._width = own


def prepare_output() -> None:
    """Has what an output can't encode shown as escape sequences, and odd widths count as unknown.

    Raises `OSError` if standard output can't be written.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    columns = os.environ.get("COLUMNS", "")
    if not re.fullmatch("[0-9]{1,4}", columns) or int(columns) < NARROWEST:
        os.environ.pop("COLUMNS", None)


def visible(text: str) -> str:
    r"""Returns the text with every control character but the newline as its escape sequence.

    >>> visible("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plain(text: object, style: str = "") -> Text:
    """Returns a text for rich to print verbatim, with control characters escaped."""
    return Text(visible(str(text)), style=style)


def is_quiet() -> bool:
    """Returns whether commands print only their results."""
    return os.environ.get(QUIET) == "1"


def is_json() -> bool:
    """Returns whether commands print their results as JSON."""
    return os.environ.get(JSON) == "1"


@contextmanager
def switched_on(variable: str, wanted: bool) -> Iterator[None]:
    """Sets an environment variable, `QUIET` or `JSON`, to 1 in the block, if `wanted`."""
    before = os.environ.get(variable)
    if wanted:
        os.environ[variable] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before


def results(*, soft_wrap: bool = False) -> Console:
    """Returns a console for a command's result; it prints nothing if that is wanted as JSON."""
    return Room(soft_wrap=soft_wrap, highlight=False, quiet=is_json())


def fits(content: RenderableType, *, whole: bool = False) -> bool:
    """Returns whether results have room for a table without breaking a word, or else a line."""
    console = results()
    unlimited = console.options.update(max_width=10_000)
    least, most = Measurement.get(console, unlimited, content)
    return (most if whole else least) <= console.width


def divided(table: Table) -> list[Table]:
    """Returns a table, or several that share its columns where results have no room for it.

    Each has the first column. What is broken at its words counts as having room.
    """
    first, *others = table.columns
    parts = [table]
    for count in range(2, len(others) + 1):
        if all(map(fits, parts)):
            break
        size = -(-len(others) // count)
        parts = [copy(table) for _ in range(0, len(others), size)]
        for number, part in enumerate(parts):
            columns = [first, *others[number * size : (number + 1) * size]]
            part.columns = [replace(column, _index=index) for index, column in enumerate(columns)]
    for part in parts[:-1]:
        part.caption = None
    return parts


def print_json(content: Any) -> None:
    """Prints a command's result as JSON, if that is wanted; a string is JSON already."""
    if is_json():
        print(content.rstrip() if isinstance(content, str) else json.dumps(content, indent=1))


def remarks(*, stderr: bool = True) -> Console:
    """Returns a console for progress, and for everything else that is not a command's result.

    It prints nothing if commands are quiet.

    stderr: whether to print to standard error, or else to standard output. Defaults to True.
    """
    if is_quiet():  # no terminal either, or a progress bar would redirect other output
        return Room(stderr=stderr, quiet=True, force_terminal=False)
    # A notebook without widgets can't draw a bar anew, and would repeat it.
    is_plain = "ipykernel" in sys.modules and find_spec("ipywidgets") is None
    draws = False if is_plain else None
    return Room(stderr=stderr, force_terminal=draws, force_jupyter=draws, highlight=False)


def remark(line: object, style: str = "", *, stderr: bool = True) -> None:
    """Prints a line verbatim where `remarks` go, however long it is."""
    remarks(stderr=stderr).print(plain(line, style), soft_wrap=True)


@contextmanager
def flushed() -> Iterator[None]:
    """Has all of standard output written when the block ends, or a help in it exits."""
    try:
        yield
    except SystemExit as error:
        if not error.code and sys.stdout is not None:
            sys.stdout.flush()
        raise
    if sys.stdout is not None:  # it was closed by who started this process
        sys.stdout.flush()


def give_up_output() -> None:
    """Drops what is left for standard output, if it can't be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):  # a stream that is no file
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())  # Python flushes once more when it ends
            os.close(null)
