"""Memory of weights: packed ones in huge pages, plain ones given back once they are packed."""

import ctypes
import math
import mmap
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import torch
from torch import Tensor

CHUNK = 64 << 20
"""Bytes to ask the system for at once, for the tensors of several layers."""

ALIGNMENT = 64
"""Every tensor starts at a multiple of so many bytes, those of a cache line."""

_lock = Lock()
_chunk: mmap.mmap | None = None  # the one that is being filled; tensors keep the others alive
_used = 0  # bytes of it


def empty_in_huge_pages(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns a contiguous tensor on the CPU for numbers to be written to.

    Reading a model's weights once per token passes through each page of 4,096 bytes once, and its
    address has to be looked up in tables that lie in memory themselves. In huge pages one thread
    reads a fifth faster, and two a twelfth. The memory is given back with the last tensor of a
    chunk. Linux hands it out where it is first written, so a chunk's unused rest costs nothing.
    """
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    count = math.prod(shape)
    if advice is None or not count:
        return torch.empty(shape, dtype=dtype)
    chunk, start = _reserve(count * dtype.itemsize, advice)
    return torch.frombuffer(chunk, dtype=dtype, offset=start, count=count).view(shape)


def _reserve(size: int, advice: int) -> tuple[mmap.mmap, int]:
    """Returns a chunk and where in it `size` bytes are free; no later call gets them."""
    global _chunk, _used
    with _lock:
        if _chunk is None or _used + size > len(_chunk):
            length = -(-max(size, CHUNK) // mmap.PAGESIZE) * mmap.PAGESIZE
            _chunk = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            _chunk.madvise(advice)
            _used = 0
        start = _used
        _used += -(-size // ALIGNMENT) * ALIGNMENT
        return _chunk, start


def mapped_files() -> list[tuple[int, int]]:
    """Returns the address ranges of memory-mapped files; only on Linux, else none."""
    maps = Path("/proc/self/maps")
    lines = [line.split() for line in maps.read_text().splitlines()] if maps.is_file() else []
    ranges = [line[0].split("-") for line in lines if line[4] != "0"]
    return [(int(first, 16), int(last, 16)) for first, last in ranges]


def trim() -> None:
    """Gives back what was freed, which the C library keeps for later; only where it is glibc."""
    if give_back := getattr(ctypes.pythonapi, "malloc_trim", None):  # Windows has no CDLL(None)
        give_back(ctypes.c_size_t(0))


def release(weight: Tensor, files: list[tuple[int, int]]) -> None:
    """Releases the memory of a weight in a mapped file.

    A file stays mapped while one of its tensors is in use, and what was read of it counts as the
    process's memory, so packing would take a model's memory twice. The weight can still be read: it
    is then loaded from the file again.
    """
    page = mmap.PAGESIZE
    first = -(-weight.data_ptr() // page) * page
    length = (weight.data_ptr() + weight.nbytes) // page * page - first
    if length > 0 and any(start <= weight.data_ptr() < end for start, end in files):
        ctypes.CDLL(None).madvise(
            ctypes.c_void_p(first), ctypes.c_size_t(length), mmap.MADV_DONTNEED
        )
