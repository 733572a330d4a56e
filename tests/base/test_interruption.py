"""SIGTERM ends a command as Ctrl-C does, and full memory is one line."""

import os
import signal
from time import monotonic

import pytest
import torch

from outrider.base import interruption
from outrider.base.interruption import Terminated, advice_in, advising, out_of_memory, terminable


def test_sigterm_is_raised_where_a_handler_can_act() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), terminable():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_later_sigterm_is_raised_anew_but_never_while_a_command_saves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminable():
        with pytest.raises(Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # it saves
        monkeypatch.setattr(interruption, "monotonic", lambda: monotonic() + interruption.SAVING)
        with pytest.raises(Terminated):  # what swallowed the first goes on
            os.kill(os.getpid(), signal.SIGTERM)


def test_an_error_takes_the_advice_along() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, advising(lambda: "go on"):
        raise KeyboardInterrupt
    assert advice_in(caught.value) == ["go on"]
    with pytest.raises(ZeroDivisionError) as other, advising(lambda: None):
        raise ZeroDivisionError
    assert advice_in(other.value) == []


def test_full_memory_is_told_from_other_errors() -> None:
    full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has")
    assert str(out_of_memory(full)).startswith("out of memory (CUDA out of memory): expected less")
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert "you tried to allocate" in str(out_of_memory(caught.value))
    assert out_of_memory(MemoryError()) is not None
    assert out_of_memory(RuntimeError("shapes do not match")) is None
