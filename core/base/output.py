"""Standard output: its errors name it, and a reader that has gone ends a command without a word."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO, final

NAME = "standard output"


@final
class _Named:
    """A stream whose errors have `NAME` as their file, where Python names none."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise _named(error) from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise _named(error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _named(error: OSError) -> OSError:
    return OSError(error.errno, error.strerror or str(error), NAME)


@contextmanager
def named_output() -> Iterator[None]:
    """Has errors of standard output name it in the block, at whose end all has been written.

    Raises `OSError` if it can't be written to; its file is `NAME`.
    """
    if sys.stdout is None:  # it was closed by who started this process
        yield
        return
    with redirect_stdout(_Named(sys.stdout)):
        try:
            yield
        except SystemExit as error:
            if not error.code:  # a help, say
                sys.stdout.flush()
            raise
        sys.stdout.flush()


def give_up_output(error: BaseException | None) -> bool:
    """Writes nothing more to standard output, if `error` says that it can't be written to.

    Returns whether that is because its reader has gone, as of a pipe to `head`.
    """
    if not (isinstance(error, OSError) and error.filename == NAME):
        return False
    with suppress(OSError, ValueError):  # a stream that is no file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())  # Python writes what is left when it ends
        os.close(null)
    return isinstance(error, BrokenPipeError)
