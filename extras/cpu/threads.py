"""The native library uses all of them, and PyTorch's small operations one."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_set_aside: ContextVar[int | None] = ContextVar("threads", default=None)


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
