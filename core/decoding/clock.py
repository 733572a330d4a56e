"""Time: the clock that the phases of a round are timed by, and a limit for calls that hang."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from time import perf_counter
from typing import Any, Self, final

import torch


def now() -> float:
    """Returns the seconds on a clock, once the accelerator has done all that it was asked for.

    An accelerator's calls return before their work is done. Without the wait, the work of one phase
    would be timed as a part of the next one that needs its result.
    """
    if has_accelerator():
        torch.accelerator.synchronize()
    return perf_counter()


@final
class Lap:
    """The time of some work, measured by events on the accelerator's own queue where it has them.

    So the next work can be asked for before this is done. `seconds` is valid after the next `now`.

    seconds: the time, if it is known already: that of work which has just ended.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.began: float = now() - seconds
        self._known = seconds
        self._events: tuple[torch.Event, ...] = (_event(),) if has_events() else ()

    def end(self) -> Self:
        if self._events:
            self._events += (_event(),)
        else:
            self._known = now() - self.began
        return self

    @property
    def seconds(self) -> float:
        if len(self._events) < 2:
            return self._known
        start, end = self._events
        return start.elapsed_time(end) / 1000


def _event() -> torch.Event:
    event = torch.Event(enable_timing=True)
    event.record()
    return event


@cache
def has_events() -> bool:
    """Returns whether the accelerator's queue takes events that know the time."""
    here = torch.accelerator.current_accelerator(check_available=True)
    return here is not None and here.type in ("cuda", "xpu")


@cache
def has_accelerator() -> bool:
    return torch.accelerator.is_available()


class TimeUp(BaseException):
    """The time of a call is up. Not an `Exception`, so that the call itself does not catch it."""


def has_timer() -> bool:
    """Returns whether a limit can be enforced here: in the main thread of a Unix process."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and hasattr(signal, "setitimer")


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raises `TimeUp` in the block after so many seconds; None for no limit.

    It uses the process's timer signal, which Python handles between two bytecode instructions. So a
    call into C that never returns is not interrupted.
    """
    if seconds is None:
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    # It fires again, in case the call catches even `TimeUp`.
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
