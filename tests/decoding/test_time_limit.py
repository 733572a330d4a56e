"""A call that takes too long is ended, where the system has a way to end it."""

import signal
import threading
import time

import pytest

from outrider import ConfigError
from outrider.decoding.time_limit import TimeUp, check_limit, time_limit


def test_a_call_is_ended_and_the_timer_is_put_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeUp), time_limit(0.05):
        time.sleep(60)
    with time_limit(60), time_limit(None):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_limit_that_can_not_be_kept_is_refused() -> None:
    errors = list[str]()

    def check() -> None:
        check_limit("draft_timeout", None)
        with pytest.raises(ConfigError) as caught:
            check_limit("draft_timeout", 1)
        errors.append(str(caught.value))

    thread = threading.Thread(target=check)
    thread.start()
    thread.join()
    line = "draft_timeout=1: expected none: it needs the main thread of a Unix process"
    assert errors == [line]
