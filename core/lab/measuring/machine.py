"""The machine that measures: what it is, whether it is quiet, and how fast it computes."""

import os
import platform
import timeit
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

BUSY = 1.25
"""The load of each core from which on a machine counts as busy; a run takes up to 1 itself."""

ROWS, WIDTH = 8, 2048
"""The product that is timed: the rows of a draft with a square matrix."""


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def memory_gib() -> float | None:
    """Returns the memory of this machine in GiB; None if unknown."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)


def load() -> float | None:
    """Returns how many processes wanted to run in the last minute, on average; None if unknown."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def busy(load: float | None, cores: int | None) -> str:
    """Returns in words that a machine has more to do than it has cores; empty if it has not.

    load: how many processes wanted to run in the last minute, on average.

    >>> busy(2.6, 2), busy(2.5, 2)
    ('the machine is busy: load 2.6 on 2 cores', '')
    """
    if load is None or not cores or load <= BUSY * cores:
        return ""
    return f"the machine is busy: load {load:.1f} on {cores} core{'s' * (cores > 1)}"


REPEATS = 8
"""How often each is timed; the shortest time counts."""


def product_seconds(dtype: "torch.dtype") -> float:
    """Returns the seconds of a product of ROWS rows with a matrix of WIDTH."""
    import torch

    rows, matrix = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(WIDTH, WIDTH, dtype=dtype)
    return min(timeit.repeat(lambda: torch.mm(rows, matrix), number=1, repeat=REPEATS))
