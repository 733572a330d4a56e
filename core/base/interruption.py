"""How a command ends early, and the advice that it then prints."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from outrider.base.errors import message_of

FEWER = "max_new_tokens=, gamma= or budget=, batch= or together="
"""The settings that decide how much memory a command takes."""


class Terminated(KeyboardInterrupt):
    """The process was told to end by SIGTERM; whatever handles Ctrl-C handles this too."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raises `Terminated` at the first SIGTERM, so that a command saves what it has.

    Does nothing outside the main thread, where Python handles no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt saving
    raise Terminated


@contextmanager
def advising(advice: Callable[[], str | None]) -> Iterator[None]:
    """Adds a note to any exception that ends the block; the console script prints it.

    advice: called after an exception; returns how to go on, or None for no advice.
    """
    try:
        yield
    except BaseException as error:
        note = advice()
        if note is not None:
            error.add_note(note)
        raise


def advice_in(error: BaseException) -> list[str]:
    """Returns the notes that `advising` has added to an error."""
    notes = error.__dict__.get("__notes__")  # what a library's class has there is no list
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def out_of_memory(error: BaseException) -> str | None:
    """Returns the line for an error that says that memory is full; None for any other error."""
    text = message_of(error)
    is_memory = isinstance(error, MemoryError) or "out of memory" in text.lower()
    if not (is_memory or "can't allocate memory" in text):
        return None
    reason = text.partition("DefaultCPUAllocator: ")[2] or text or "no message"
    return f"out of memory ({reason.partition('. ')[0]}): expected less at once: fewer {FEWER}"
