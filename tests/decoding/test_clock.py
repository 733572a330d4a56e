"""Phases of a round have the time of their own work, and a call that takes too long is ended."""

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from outrider import ConfigError, Context, Drafter, Pen, Verdict, Verifier
from outrider.contract.draft import Draft
from outrider.decoding import clock
from outrider.decoding.clock import TimeUp, time_limit
from outrider.decoding.decode import decode, decode_together
from outrider.decoding.run import Run
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token

DRAFT, SCORE, VERIFY = 1.0, 16.0, 0.25


class Device:
    """A device whose calls return at once; its clock moves on only as something waits for it."""

    def __init__(self) -> None:
        self.asked, self.time = 0.0, 0.0

    def ask(self, seconds: float) -> None:
        self.asked += seconds

    def wait(self) -> None:
        self.time, self.asked = self.time + self.asked, 0.0


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    device = Device()
    monkeypatch.setattr(clock, "has_accelerator", lambda: True)
    monkeypatch.setattr(clock, "perf_counter", lambda: device.time)
    monkeypatch.setattr(torch.accelerator, "synchronize", device.wait)
    yield device


def parts(device: Device) -> tuple[TabularTarget, Drafter, Verifier]:
    """Returns a target, a drafter and a rule which ask the device for their work and go on."""

    class Target(TabularTarget):
        def open(self, *args: Any) -> Any:
            session = super().open(*args)
            score = session.score

            def asking(draft: Draft) -> torch.Tensor:
                device.ask(SCORE)
                return score(draft)

            session.score = asking
            return session

    class Drafting(Drafter):
        def propose(self, context: Context, pen: Pen) -> None:
            device.ask(DRAFT)
            while pen.open:
                pen.draw(torch.zeros(pen.vocab_size))

    class Rule(Verifier):
        takes, lossless = frozenset({"chain"}), True

        def verify(self, *args: Any) -> Verdict:
            device.ask(VERIFY)
            return Token().verify(*args)

    return Target(5), Drafting(), Rule()


def test_a_text_has_the_seconds_of_each_phase(device: Device) -> None:
    target, drafter, rule = parts(device)
    for round in decode(target, drafter, rule, [1], gamma=2, max_new_tokens=9):
        assert round.seconds == {"draft": DRAFT, "score": SCORE, "verify": VERIFY}


def test_texts_of_a_batch_have_the_seconds_of_each_phase(device: Device) -> None:
    target, drafter, rule = parts(device)
    rounds = decode_together(target, drafter, rule, [[1], [2]], gamma=2, max_new_tokens=9)
    seconds = [round.seconds for _, round in rounds]
    assert {each["draft"] for each in seconds} == {DRAFT}
    assert {each["verify"] for each in seconds} == {VERIFY}
    # Two texts in a pass share its time; a text that is alone at the end has it all.
    assert {each["score"] for each in seconds} <= {SCORE, 2 * SCORE}


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
