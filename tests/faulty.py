"""Parts that go wrong in the middle of a run, in the ways that the page on reliability names."""

import errno
import os
import signal
from collections.abc import Callable

import torch

from outrider import Policy


def full_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def full_disk() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


FAULTS: dict[str, Callable[[], None]] = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "memory": full_memory,
    "disk": full_disk,
}


class Faulty(Policy):
    """Drafts gamma tokens, until a fault happens in one of its rounds; gammas below 2 are spared.

    after: the rounds before it.
    """

    def __init__(self, fault: str, after: int = 2) -> None:
        self.fault, self.left = fault, after

    def depth(self, gamma: int) -> int:
        self.left -= 1
        if self.left < 0 and gamma > 1:
            FAULTS[self.fault]()
        return gamma
