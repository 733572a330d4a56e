"""Kernels: the instructions of a processor for products of matrices, and the time of a product."""

from pathlib import Path
from time import perf_counter
from typing import Any

import torch

X86_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")
ARM_FLAGS = ("asimd", "asimdhp", "asimddp", "sve", "bf16", "i8mm")

ROWS, WIDTH = 8, 2048
"""The product that is measured: the rows of a draft with a square matrix."""


def kernels() -> dict[str, Any]:
    """Returns the CPU's and torch's capabilities, and the time of a product in two precisions."""
    flags = cpu_flags()
    return {
        "torch on the CPU": torch.backends.cpu.get_cpu_capability(),
        "flags of the CPU": [flag for flag in (*X86_FLAGS, *ARM_FLAGS) if flag in flags],
        f"{ROWS} rows in float32, ms": product_ms(torch.float32),
        f"{ROWS} rows in bfloat16, ms": product_ms(torch.bfloat16),
    }


def cpu_flags(file: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Returns the flags of the first processor; none where there is no such file."""
    if not file.is_file():
        return set()
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = (line.partition(":")[2] for line in lines if line.startswith(("flags", "Features")))
    return set(next(rows, "").split())


def product_ms(dtype: torch.dtype) -> float:
    """Returns the time of a product in milliseconds, the shortest of five runs."""
    rows, matrix = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(WIDTH, WIDTH, dtype=dtype)
    seconds = []
    for _ in range(5):
        began = perf_counter()
        torch.mm(rows, matrix)
        seconds.append(perf_counter() - began)
    return round(1000 * min(seconds), 2)
