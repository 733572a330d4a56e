"""How often a program stops for an accelerator, and why."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten: Any = torch.ops.aten

READS = {
    aten._local_scalar_dense,
    aten.equal,
    aten.nonzero,
    aten.masked_select,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
}
"""Operations that the host waits for, since it has to know their result or its shape."""
COPIES = {aten._to_copy, aten.copy_}
MAKERS = {torch.tensor, torch.as_tensor, Tensor.new_tensor}
"""What copies numbers of Python to a device, and waits for that."""


@final
class Waits:
    """What a program has stopped for, since the count began.

    kinds: how often it read from the device ("reads"), wrote to it and waited ("writes"), or
        waited for all its work ("synchronizations"), whether or not there was any work to do.
    waits: how often one of these found the device at work, so that the host really waited.
    is_paused: whether nothing is counted at the moment.
    """

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.waits = 0
        self.is_paused = False
        self._is_working = False

    def works(self) -> None:
        """Notes that the device was asked for something."""
        self._is_working = True

    def stops(self, kind: str) -> None:
        """Notes that the program stops until the device has done all its work."""
        if self.is_paused:
            return
        self.kinds[kind] += 1
        self.waits += self._is_working
        self._is_working = False


@contextmanager
def counted(device: str) -> Iterator[Waits]:
    """Yields the waits for a kind of device, such as "cuda", that happen within the context."""
    waits, synchronize = Waits(), torch.accelerator.synchronize

    def counting(*arguments: Any) -> None:
        waits.stops("synchronizations")
        synchronize(*arguments)

    torch.accelerator.synchronize = counting
    try:
        with _Makers(device, waits), _Operations(device, waits):
            yield waits
    finally:
        torch.accelerator.synchronize = synchronize


class _Makers(TorchFunctionMode):
    """Sees the constructors, whose copies no dispatch mode sees."""

    def __init__(self, device: str, waits: Waits) -> None:
        super().__init__()
        self._device, self._waits = device, waits

    def __torch_function__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_new = call in MAKERS and not isinstance(args[-1], Tensor)
        self._waits.is_paused = is_new
        result = call(*args, **(kwargs or {}))
        self._waits.is_paused = False
        if is_new and result.device.type == self._device:
            self._waits.stops("writes")
        return result


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, device: str, waits: Waits) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device, self._waits = device, waits

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = call(*args, **kwargs)
        operation, given = call.overloadpacket, (args, kwargs)
        here, there = self._has(given), self._has(result)
        if operation in COPIES and self._stops(operation, args, kwargs, there=there):
            self._waits.stops("reads" if not there else "writes")
        elif here and (operation in READS or (operation is aten.index and _has_mask(args[1]))):
            self._waits.stops("reads")
        elif (here or there) and not call.is_view:
            self._waits.works()
        return result

    def _has(self, tree: Any) -> bool:
        leaves = tree_leaves(tree)
        return any(isinstance(leaf, Tensor) and self._is_there(leaf) for leaf in leaves)

    def _is_there(self, tensor: Tensor) -> bool:
        return tensor.device.type == self._device

    def _stops(self, operation: Any, args: Any, kwargs: Any, *, there: bool) -> bool:
        """Returns whether a copy goes from one side to the other, and is waited for."""
        source = args[1] if operation is aten.copy_ else args[0]
        is_async = kwargs.get(
            "non_blocking", args[2] if operation is aten.copy_ and args[2:] else False
        )
        return self._is_there(source) != there and not is_async


def _has_mask(indices: Any) -> bool:
    return any(isinstance(index, Tensor) and index.dtype == torch.bool for index in indices)
