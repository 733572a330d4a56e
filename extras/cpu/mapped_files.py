"""Memory of plain weights, which is given back to the system once the weights are packed."""

import ctypes
import mmap
from pathlib import Path

from torch import Tensor


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
