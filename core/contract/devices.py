"""What differs between devices: their widest numbers, and copies that wait for nothing."""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

PATIENT = ("mps", "xpu")
"""The kinds of devices that may read ordinary memory only while the copy is waited for."""


@cache
def widest(device: torch.device) -> torch.dtype:
    """Returns the type that distributions are computed in: float64, or float32 without it."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, TypeError):  # Apple's GPUs, and some of Intel's
        return torch.float32
    return torch.float64


def wide(tensor: Tensor, device: torch.device | None = None) -> Tensor:
    """Returns a tensor on a device, its own by default, in the widest type that the device has."""
    device = tensor.device if device is None else device
    dtype = widest(device)
    if dtype == torch.float64:  # the device that it comes from need not have it
        return _moved(tensor, device).to(dtype)
    return _moved(tensor.to(dtype), device)


def placed(values: Sequence[int] | Sequence[Tensor] | Tensor, device: torch.device) -> Tensor:
    """Returns numbers of the host on a device, which need not have done its work before.

    values: some may be there already, as tensors [1]; then all are.
    """
    if not isinstance(values, Tensor):
        if len(values) > 0 and isinstance(values[0], Tensor):
            return torch.cat([*values]) if len(values) > 1 else values[0]
        values = torch.tensor([*values], dtype=torch.long)
    return _moved(values, device)


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    is_ready = tensor.device.type == "cpu" and device.type not in PATIENT
    return tensor.to(device, non_blocking=is_ready)
