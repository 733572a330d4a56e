"""The clock that the phases of a round are timed by."""

from functools import cache
from time import perf_counter

import torch


def now() -> float:
    """Returns the seconds on a clock, once the accelerator has done all that it was asked for.

    An accelerator's calls return before their work is done. Without the wait, the work of one phase
    would be timed as a part of the next one that needs its result.
    """
    if _has_accelerator():
        torch.accelerator.synchronize()
    return perf_counter()


@cache
def _has_accelerator() -> bool:
    return torch.accelerator.is_available()
