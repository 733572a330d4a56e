"""Terminal: what may be printed, and text that others wrote made safe to print."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

QUIET = "OUTRIDER_QUIET"
"""The environment variable that `--quiet` sets to 1, so that jobs in other processes see it."""

_CONTROLS = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that move the cursor, change colours, reverse text or can't be encoded; no newline."""


def visible(text: str) -> str:
    r"""Returns the text with every control character but the newline as its escape sequence.

    >>> visible("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plain(text: object, style: str = "") -> Text:
    """Returns a text for rich to print as it stands: without markup and control characters."""
    return Text(visible(str(text)), style=style)


def is_quiet() -> bool:
    """Returns whether commands print their results alone."""
    return os.environ.get(QUIET) == "1"


@contextmanager
def quiet(wanted: bool = True) -> Iterator[None]:
    """Makes commands print their results alone within the block, if that is wanted."""
    before = os.environ.get(QUIET)
    if wanted:
        os.environ[QUIET] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(QUIET, None)
        else:
            os.environ[QUIET] = before


def remarks(*, stderr: bool = True) -> Console:
    """Returns a console for progress, and for all else that is not a command's result.

    If commands are quiet, it prints nothing.

    stderr: print to standard error. Otherwise to standard output.
    """
    if is_quiet():  # no terminal either, or a progress bar would take over what others print
        return Console(stderr=stderr, quiet=True, force_terminal=False)
    return Console(stderr=stderr, highlight=False)
