"""The roofline: how fast a token can be where each reads all weights once."""

import time

import torch


def bandwidth(bytes_read: int = 1 << 29, repeats: int = 8) -> float:
    """Returns the bytes a second that this machine reads from memory, the best of some passes."""
    block = torch.ones(bytes_read // 4)
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        block.sum()
        best = min(best, time.perf_counter() - began)
    return bytes_read / best
