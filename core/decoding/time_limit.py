"""Time limit: ends a call that takes too long, such as a draft by a plugin that hangs."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from outrider.base.bounds import Seconds, check
from outrider.base.errors import require


class TimeUp(BaseException):
    """The time of a call is up. Not an `Exception`, so that the call itself does not catch it."""


def check_limit(name: str, seconds: float | None) -> None:
    """Raises `ConfigError` for a limit that is not above 0, or that can't be enforced here.

    name: the name of the setting.
    seconds: None for no limit, which is always possible.
    """
    check({name: Seconds | None}, {name: seconds})
    if seconds is None:
        return
    require(has_timer(), name, seconds, "none: it needs the main thread of a Unix process")


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
