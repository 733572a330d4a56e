"""A processor's instructions for products of matrices, and the threads that use them."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import torch

X86_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")
ARM_FLAGS = ("asimd", "asimdhp", "asimddp", "sve", "bf16", "i8mm")

_set_aside: ContextVar[int | None] = ContextVar("threads", default=None)


def cpu_features() -> list[str]:
    """Returns those instructions of the first processor that products of matrices use."""
    flags = cpu_flags()
    return [flag for flag in (*X86_FLAGS, *ARM_FLAGS) if flag in flags]


def cpu_flags(file: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Returns the flags of the first processor; none where there is no such file."""
    if not file.is_file():
        return set()
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = (line.partition(":")[2] for line in lines if line.startswith(("flags", "Features")))
    return set(next(rows, "").split())


def native_threads() -> int:
    """Returns how many threads the native library may use: PyTorch's number."""
    return _set_aside.get() or torch.get_num_threads()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits PyTorch to one thread inside the block; the native library still uses all.

    PyTorch waits for all of its threads after each operation. If another program keeps a core busy,
    that can take milliseconds, even for the softmax of one row of logits.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    token = _set_aside.set(threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _set_aside.reset(token)
