"""A make-believe accelerator: tensors that claim another device, and refuse to meet the CPU's.

On a machine that has one, `OUTRIDER_ACCELERATOR=cuda pytest -m device` runs tests on the real one.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from outrider.contract.devices import widest

ON_DISK = {
    "model.embed_tokens": "disk", "model.layers.0": "cpu", "model.layers.1": "disk",
    "model.layers.2": "disk", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "disk",
}  # fmt: skip
"""Where accelerate puts the parts of a tiny model with three layers: some are read at each pass."""

FAR = torch.device(os.environ.get("OUTRIDER_ACCELERATOR", "meta"))
"""The device that the tensors claim: "meta" is the one name that torch knows without a driver."""
if FAR.type != "meta":
    FAR = torch.zeros(1, device=FAR).device  # with its number

COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
INDEXING = (
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten.index_put.default,
    torch.ops.aten._index_put_impl_.default,
)
"""What takes indices from the CPU for a tensor anywhere, but not the other way round."""


class FarTensor(Tensor):
    """A tensor that claims the device `FAR`; its values are an ordinary tensor on the CPU."""

    near: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, near: Tensor) -> Self:
        tensor: Self = torch.Tensor._make_wrapper_subclass(
            cls,
            near.shape,
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            device=FAR,
        )
        tensor.near = near
        return tensor

    @classmethod
    def __torch_dispatch__(cls, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(call, args, kwargs or {})

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def data_ptr(self) -> int:
        return self.near.data_ptr()

    def __repr__(self, **_: Any) -> str:
        return f"FarTensor({self.near})"


def _run(call: Any, args: Any, kwargs: Any) -> Any:
    """Runs one operation on the values, and refuses operands on two devices as torch does."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    if call in INDEXING and isinstance(args[0], FarTensor):
        tensors = [args[0], *(leaf for leaf in tree_leaves(args[2:]) if isinstance(leaf, Tensor))]
    assert all(isinstance(tensor, FarTensor) or tensor.device != FAR for tensor in tensors), call
    far = any(isinstance(tensor, FarTensor) for tensor in tensors)
    near = any(tensor.dim() and not isinstance(tensor, FarTensor) for tensor in tensors)
    if far and near and call not in COPIES:
        raise RuntimeError(f"expected all tensors of {call} on one device, found {FAR} and cpu")
    if call is torch.ops.aten.copy_.default:
        far = isinstance(args[0], FarTensor)
    if kwargs.get("device") is not None:
        far = torch.device(kwargs["device"]) == FAR
        kwargs = {**kwargs, "device": torch.device("cpu")}
    args, kwargs = tree_map_only(FarTensor, lambda tensor: tensor.near, (args, kwargs))
    result = call(*args, **kwargs)
    return tree_map_only(Tensor, FarTensor, result) if far else result


class _Operations(TorchDispatchMode):
    """Runs operations on the values. with_float64, told: as for `accelerator`."""

    def __init__(self, *, with_float64: bool, told: Callable[..., None] | None) -> None:
        super().__init__()
        self._with_float64, self._told = with_float64, told

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = _run(call, args, kwargs or {})
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, FarTensor)]
        if not self._with_float64 and any(tensor.dtype == torch.float64 for tensor in made):
            raise TypeError(f"{call}: the device has no float64")
        if self._told is not None:
            self._told(call, args, kwargs or {}, result)
        return result


class _Constructors(TorchFunctionMode):
    """Catches what makes tensors without asking a dispatch mode."""

    def __torch_function__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if call is torch.tensor and kwargs.get("device") is not None:
            return call(*args, **{**kwargs, "device": "cpu"}).to(kwargs["device"])
        if call in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[1], list):
            args = (args[0], torch.tensor(args[1], dtype=torch.long), *args[2:])
        elif call in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[1], tuple):
            assert not any(isinstance(it, list) for it in args[1]), (
                "a list is copied, and lost here"
            )
        return call(*args, **kwargs)


@contextmanager
def accelerator(
    *, with_float64: bool = True, told: Callable[..., None] | None = None
) -> Iterator[torch.device]:
    """Yields a device that exists while the context lasts.

    with_float64: whether it has such numbers; Apple's GPUs have none.
    told: is called with each operation, its arguments and its result.
    """
    if FAR.type != "meta":
        yield FAR
        return
    widest.cache_clear()
    with _Constructors(), _Operations(with_float64=with_float64, told=told):
        yield FAR
    widest.cache_clear()


def moved(model: nn.Module, device: torch.device | str) -> None:
    """Moves a model as `model.to` does, which takes no tensors of a make-believe device."""
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(weight.detach().to(device), requires_grad=False))
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.to(device))
