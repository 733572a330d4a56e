"""Fills a machine's profile by running on it: a read of memory, products, and a small call."""

import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
import yaml

from outrider.base.folders import write_whole
from outrider.extras.bench.roofline import memory_bandwidth
from outrider.extras.theory.hardware import Hardware
from outrider.lab.runs.identity import processor

SIZE = 1536
"""The rows and columns of the products that are timed."""

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""The types of products; cores multiply the last one a hundred times slower."""

SMALL_CALLS = 2000
"""The calls of almost no work whose time is that of a launch."""


def measured(clock: Callable[[], float] = time.perf_counter) -> Hardware:
    """Returns the profile of this machine: of its GPU if there is one, else of its cores.

    clock: seconds; `time.process_time` on one thread is what a busy machine would take alone.
    """
    device = torch.accelerator.current_accelerator() or torch.device("cpu")
    is_cpu = device.type == "cpu"
    return Hardware(
        name=processor() if is_cpu else torch.cuda.get_device_name(),
        bandwidth=memory_bandwidth(clock=clock) if is_cpu else _copied(device, clock),
        peak={
            str(dtype).removeprefix("torch."): _products(dtype, device, clock)
            for dtype in DTYPES[: 2 if is_cpu else 3]
        },
        launch=_small_call(device, clock),
        source=f"measured on {platform.node()}, {torch.get_num_threads()} threads",
    )


def write_profile(path: Path, hardware: Hardware) -> None:
    """Writes a profile that `hardware=NAME` finds in `--config-dir`'s folder `hardware`."""
    names = ("name", "bandwidth", "peak", "launch", "reached", "link", "exchange", "source")
    content = {name: getattr(hardware, name) for name in names}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, yaml.safe_dump(content, sort_keys=False))


def _products(dtype: torch.dtype, device: torch.device, clock: Callable[[], float]) -> float:
    one = torch.ones(SIZE, SIZE, dtype=dtype, device=device)
    return 2 * SIZE**3 / _shortest(lambda: one @ one, device, clock, repeats=4)


def _copied(device: torch.device, clock: Callable[[], float], size: int = 1 << 30) -> float:
    block = torch.ones(size // 4, device=device)
    other = torch.empty_like(block)
    return 2 * size / _shortest(lambda: other.copy_(block), device, clock, repeats=8)


def _small_call(device: torch.device, clock: Callable[[], float]) -> float:
    one = torch.ones(1, device=device)

    def calls() -> None:
        for _ in range(SMALL_CALLS):
            one.add_(0)

    return _shortest(calls, device, clock, repeats=3) / SMALL_CALLS


def _shortest(
    work: Callable[[], object], device: torch.device, clock: Callable[[], float], repeats: int
) -> float:
    """Returns the seconds of the fastest of some runs, after one that does not count."""
    seconds = []
    for _ in range(repeats + 1):
        began = clock()
        work()
        if device.type != "cpu":
            torch.accelerator.synchronize()
        seconds.append(clock() - began)
    return min(seconds[1:])
