"""How a command ends early, and the advice that it then prints."""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from outrider.base.errors import message_of

FEWER = "max_new_tokens=, gamma= or budget=, batch= or together="
"""The settings that decide how much memory a command takes."""

SAVING = 10.0
"""The seconds after a SIGTERM in which another one must not interrupt saving."""


class Terminated(KeyboardInterrupt):
    """The process was told to end by SIGTERM; whatever handles Ctrl-C handles this too."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raises `Terminated` at a SIGTERM, so that a command saves what it has.

    One that comes while it may still save is ignored; a later one raises anew, since a library can
    swallow an exception. Does nothing outside the main thread, where Python handles no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    saved_by = -math.inf

    def terminate(*_: Any) -> None:
        nonlocal saved_by
        if monotonic() >= saved_by:
            saved_by = monotonic() + SAVING
            raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
