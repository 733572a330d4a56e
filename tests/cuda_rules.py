"""PyTorch's own rules of CUDA for what runs on the make-believe accelerator, without a card.

FakeTensorMode has these rules for each operation: which devices may meet, what type and shape
comes out, and where. It can't run a program by itself: without a driver `x[0]` fails on its
tensors, and a number that the host reads is not there. So the values come from tests/devices.py,
and each operation on them is asked about here.
"""

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.devices import FAR, FarTensor

READS = (DataDependentOutputException, DynamicOutputShapeException)
"""What is raised where the host has to know values."""


class CudaRules:
    """Fails where CUDA refuses an operation, or puts its result elsewhere or in another type.

    `accelerator(told=CudaRules())` tells it of each operation.

    asked, read: how many operations were asked about, and how many of them the host reads.
    """

    def __init__(self) -> None:
        self.asked = self.read = 0
        self._rules = FakeTensorMode()

    def __call__(self, call: Any, args: Any, kwargs: Any, result: Any) -> None:
        leaves = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        if not any(leaf.device == FAR for leaf in leaves):
            return
        self.asked += 1
        fakes, named = tree_map_only(Tensor, self._fake, (args, kwargs))
        if named.get("device") is not None:
            named = {**named, "device": _there(torch.device(named["device"]))}
        is_mask = any(isinstance(leaf, Tensor) and leaf.dtype == torch.bool for leaf in leaves[1:])
        try:
            if call is torch.ops.aten.index.Tensor and is_mask:  # its shape depends on values
                raise DynamicOutputShapeException(call)
            with self._rules:
                expected = call(*fakes, **named)
        except READS:
            self.read += 1
            return
        for own, right in zip(tree_leaves(result), tree_leaves(expected), strict=True):
            if isinstance(own, Tensor):
                assert (own.shape, own.dtype) == (right.shape, right.dtype), call
                assert _there(own.device) == right.device.type, call

    def _fake(self, tensor: Tensor) -> Tensor:
        values = tensor.near if isinstance(tensor, FarTensor) else tensor  # some change in place
        size, stride, there = values.shape, values.stride(), _there(tensor.device)
        with self._rules:
            return torch.empty_strided(size, stride, dtype=tensor.dtype, device=there)


def _there(device: torch.device) -> str:
    return "cuda" if device == FAR else device.type
