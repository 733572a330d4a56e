"""Counts the bytes of weights and caches that matrix products read."""

from typing import Any, Self, final

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

MATRICES: dict[str, tuple[int, ...]] = {
    "aten.linear": (1,),
    "aten.mm": (1,),
    "aten.addmm": (2,),
    "aten.bmm": (1,),
    "aten.baddbmm": (2,),
    "aten.mv": (0,),
    "aten.addmv": (1,),
    "aten._scaled_dot_product_flash_attention_for_cpu": (1, 2),
    "mkldnn._linear_pointwise": (1,),
}
"""PyTorch's products, each with the places of the matrices among its arguments.

Attention multiplies with the keys and the values.
"""

_counters: "list[ByteCounter]" = []
_Mode: Any = TorchDispatchMode  # which has no annotations


@final
class ByteCounter(_Mode):  # type: ignore[misc]
    """Counts, inside a block, the bytes of each matrix once for each product with it.

    These are weights, and the keys and values of a cache. Rows that are looked up in a table don't
    count, nor does what products multiply with the matrices. On a CPU only.

    bytes: those of all products so far, by PyTorch and by the native library.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes: int = 0

    def __enter__(self) -> Self:
        super().__enter__()
        _counters.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _counters.remove(self)
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        places = MATRICES.get(str(func.overloadpacket), ())
        self.bytes += sum(args[place].numel() * args[place].element_size() for place in places)
        return func(*args, **(kwargs or {}))


def is_counting() -> bool:
    """Returns whether any counter is active."""
    return bool(_counters)


def add(count: int) -> None:
    """Counts bytes that PyTorch does not see, since the native library reads them."""
    for counter in _counters:
        counter.bytes += count


def stored_bytes(packed: object) -> int:
    """Returns the bytes of all tensors that an object holds, such as the panels of a matrix."""
    return sum(part.nbytes for part in vars(packed).values() if isinstance(part, Tensor))
