"""The phases of a round have the time of their own work, also on a device that works on its own."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from outrider import Context, Drafter, Pen, Verdict, Verifier
from outrider.contract.draft import Draft
from outrider.decoding import clock
from outrider.decoding.decode import decode, decode_together
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
