"""The tensors that a wrapping one, such as torchao's rounded weights, is made of."""

from collections.abc import Iterator

from torch import Tensor


def plain_parts(name: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors with memory of their own, each with its name; a plain tensor is one.

    Hashes are made of these: a wrapping tensor takes few operations.
    """
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield name, tensor
        return
    for part in flatten()[0]:
        yield from plain_parts(f"{name}.{part}", getattr(tensor, part))
