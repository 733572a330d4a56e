"""The roofline: plain decoding reads all weights per token; memory bandwidth bounds its speed."""

import time
from collections.abc import Callable

import torch


def memory_bandwidth(
    bytes_read: int = 1 << 29, repeats: int = 8, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Returns the bytes per second that this machine reads from memory, the best of `repeats`."""
    block = torch.ones(bytes_read // 4)
    best = float("inf")
    for _ in range(repeats):
        began = clock()
        block.sum()
        best = min(best, clock() - began)
    return bytes_read / best
