"""A call that takes too long is ended, where the system has a way to end it."""

import signal
import threading
import time

import pytest

from outrider import ConfigError
from outrider.decoding.clock import TimeUp, time_limit
from outrider.decoding.run import Run
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token


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
        Run(target=TabularTarget(6), verifier=Token())
        with pytest.raises(ConfigError) as caught:
            Run(target=TabularTarget(6), verifier=Token(), draft_timeout=1.5)
        errors.append(str(caught.value))

    thread = threading.Thread(target=check)
    thread.start()
    thread.join()
    line = "draft_timeout=1.5: expected none: it needs the main thread of a Unix process"
    assert errors == [line]
