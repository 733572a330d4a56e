"""PyTorch computes with one thread while a text is decoded; the native library has them all."""

from typing import Any

import pytest
import torch

from outrider import Drafter, Pen, decode, decode_together
from outrider.extras.cpu.processor import native_threads, one_thread
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token


@pytest.fixture(autouse=True)
def three_threads() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_the_library_keeps_the_threads() -> None:
    assert native_threads() == torch.get_num_threads() == 3
    with one_thread():
        assert (torch.get_num_threads(), native_threads()) == (1, 3)
        with one_thread():
            assert (torch.get_num_threads(), native_threads()) == (1, 3)
    assert native_threads() == torch.get_num_threads() == 3


def test_an_error_gives_the_threads_back() -> None:
    with pytest.raises(RuntimeError), one_thread():
        raise RuntimeError
    assert native_threads() == torch.get_num_threads() == 3


class NotesThreads(Drafter):
    def __init__(self) -> None:
        self.noted = set[int]()

    def propose(self, context: Any, pen: Pen) -> None:
        self.noted.add(torch.get_num_threads())


@pytest.mark.parametrize(("optimize", "threads"), [("packed", 1), ("none", 3)])
def test_decoding_takes_one_where_the_library_runs_the_model(
    optimize: str, threads: int, llama: Any
) -> None:
    target, drafter = TransformersTarget(llama(), optimize=optimize), NotesThreads()
    rounds = decode(target, drafter, Token(), [3, 4], max_new_tokens=3)
    together = decode_together(target, drafter, Token(), [[3, 4]], max_new_tokens=3)
    for _ in (*rounds, *together):
        assert torch.get_num_threads() == 3  # between rounds it is the caller's
    assert drafter.noted == {threads}
