"""A round of a chain waits for its accelerator twice: for the draft, and for the verdict."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from waits import counted

from outrider import Sampling, decode
from outrider.contract.round import Round
from outrider.decoding import clock
from outrider.plugins.parts import make
from outrider.testing.tiny_targets import tiny_target
from tests.devices import FAR, accelerator, moved

VOCAB = 600
"""Larger than what top-p sorts as a whole on a CPU."""


class Event:
    """An event on the queue of a device that is always done at once."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        """Is passed at once."""

    def elapsed_time(self, other: "Event") -> float:
        return 0.0


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Yields a device with events, for which the clock has to wait."""
    if FAR.type != "meta":
        yield FAR
        return
    monkeypatch.setattr(clock, "has_accelerator", lambda: True)
    monkeypatch.setattr(clock, "has_events", lambda: True)
    monkeypatch.setattr(torch, "Event", Event)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: None)
    with accelerator() as device:
        yield device


def rounds(target: Any, rule: str, sampling: Sampling) -> Iterator[Round]:
    parts = make("drafter", {"drafter": "small_lm", "layers": 2}), make("verifier", rule)
    return decode(target, *parts, [1, 2, 3], gamma=4, sampling=sampling, max_new_tokens=9)


CASES = [
    *[(rule, Sampling(temperature=1.0)) for rule in ("block", "lenient", "rejection")],
    ("token", Sampling()),
    ("lenient", Sampling()),
    ("scaled_uniform", Sampling(temperature=1.0, top_p=0.9)),
    ("token", Sampling(temperature=0.7, top_k=20, top_p=0.8, min_p=0.01)),
]


@pytest.mark.device
@pytest.mark.parametrize(("rule", "sampling"), CASES)
def test_a_round_of_a_chain_waits_twice_and_writes_the_text_of_the_cpu(
    rule: str, sampling: Sampling, far: torch.device
) -> None:
    target = tiny_target(VOCAB)
    expected = [round.tokens for round in rounds(target, rule, sampling)]
    moved(target.model, far)
    loop = rounds(target, rule, sampling)
    found = [next(loop).tokens]  # the first round makes caches, and reads the prompt
    with counted(far.type) as waits:
        found += [round.tokens for round in loop]
    assert found == expected
    assert waits.waits <= 2 * (len(found) - 1)
    # The second read of a verdict is that of finite logits, which are there by then.
    assert waits.kinds["reads"] <= 3 * (len(found) - 1)
    assert not waits.kinds["writes"]


@pytest.mark.device
def test_noise_of_one_seed_is_waited_for_at_each_token_and_not_more(far: torch.device) -> None:
    target = tiny_target(VOCAB)
    moved(target.model, far)
    loop = rounds(target, "gumbel", Sampling(temperature=1.0))
    next(loop)
    with counted(far.type) as waits:
        drafted = [round.draft for round in loop]
    tokens = sum(len(draft) + 1 for draft in drafted)
    assert waits.waits <= 2 * tokens  # a draft's logits and its token, and the target's token


@pytest.mark.device
def test_a_stop_of_the_host_is_counted_once() -> None:
    with accelerator() as device, counted(device.type) as waits:
        values = torch.ones(3, device=device)
        assert (waits.waits, dict(waits.kinds)) == (0, {})
        assert values.tolist() == [1, 1, 1]
        assert float(values[0]) == 1  # there is nothing left to do
        torch.tensor([1.0, 2.0], device=device)
        torch.ones(2).to(device, non_blocking=True)
        (values + 1)[values > 0]
        assert (waits.waits, dict(waits.kinds)) == (2, {"reads": 3, "writes": 1})
