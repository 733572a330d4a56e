"""The roofline: plain decoding reads all weights per token; memory bandwidth bounds its speed."""

import time

import torch


def memory_bandwidth(bytes_read: int = 1 << 29, repeats: int = 8) -> float:
    """Returns the bytes per second that this machine reads from memory, the best of `repeats`."""
    block = torch.ones(bytes_read // 4)
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        block.sum()
        best = min(best, time.perf_counter() - began)
    return bytes_read / best
