"""The clock that the phases of a round are timed by."""

from functools import cache
from time import perf_counter
from typing import Self, final

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
        """Ends the work that the lap began with; returns the lap."""
        if self._events:
            self._events += (_event(),)
        else:
            self._known = now() - self.began
        return self

    @property
    def seconds(self) -> float:
        """Returns the seconds from the beginning to the end."""
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
