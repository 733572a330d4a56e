"""Huge pages: copies side by side in memory that the system was asked to lay out in large pages."""

import gc
import mmap
from collections.abc import Iterator
from itertools import pairwise
from weakref import ref

import pytest
import torch

from outrider.extras.cpu import memory
from outrider.extras.cpu.memory import empty_in_huge_pages


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Chunks of few pages, which nobody else uses."""
    monkeypatch.setattr(memory, "CHUNK", 4 * mmap.PAGESIZE)
    monkeypatch.setattr(memory, "_chunk", None)
    yield


def in_huge_pages(tensor: torch.Tensor) -> torch.Tensor:
    return empty_in_huge_pages(tensor.shape, tensor.dtype).copy_(tensor)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32, torch.float64])
def test_a_copy_is_contiguous_and_equal(dtype: torch.dtype) -> None:
    tensor = torch.randn(7, 3, 5).mul(20).to(dtype).transpose(0, 2)
    copy = in_huge_pages(tensor)
    assert copy.is_contiguous() and copy.data_ptr() % 64 == 0
    assert torch.equal(copy, tensor)
    copy[0] = 1
    assert not torch.equal(copy, tensor)


def test_copies_do_not_overlap() -> None:
    tensors = [torch.randn(size) for size in (1, 100, 1000, 3000, 10_000, 17, 40_000, 4096)]
    copies = [in_huge_pages(tensor) for tensor in tensors]
    assert all(torch.equal(copy, tensor) for copy, tensor in zip(copies, tensors, strict=True))
    ends = sorted((copy.data_ptr(), copy.data_ptr() + copy.nbytes) for copy in copies)
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert copies[1].data_ptr() - copies[0].data_ptr() == 64  # side by side in one chunk


def test_a_chunk_lives_as_long_as_its_tensors() -> None:
    copy, next_copy = in_huge_pages(torch.ones(3)), in_huge_pages(torch.ones(5))
    current = memory._chunk
    chunk = ref(current)
    del current
    in_huge_pages(torch.ones(5 * mmap.PAGESIZE))  # which needs a chunk of its own
    del copy
    gc.collect()
    assert chunk() is not None and torch.equal(next_copy, torch.ones(5))
    del next_copy
    gc.collect()
    assert chunk() is None
