"""Panels: a matrix in the memory layout of the native library."""

import ctypes
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from outrider.runtime.native import library
from outrider.runtime.threads import native_threads

WIDTH = 32
"""The number of outputs in a panel."""

KINDS = {torch.float32: 0, torch.int8: 1, torch.bfloat16: 2}
"""The library's numbers for the types that a matrix is stored in."""

PRECISIONS = (torch.float32, torch.bfloat16)
"""The types of matrices that are stored unchanged."""

DEPTH = 32
"""The number of inputs of a tile; panels of bfloat16 have a multiple of it."""

LARGEST = 127
"""The largest absolute value of a weight of eight bits."""


@final
class Matrix(ctypes.Structure):
    """A matrix in the library's memory layout; the fields are those of `native.c`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("panels", "bias", "scale")),
        *((name, ctypes.c_int64) for name in ("outputs", "inputs", "kind")),
    )


@final
class Panels:
    """The weights [outputs, inputs] of a linear layer, stored in panels of 32 outputs.

    weight, bias: float32 or bfloat16, on the CPU; float64 can be quantized, but not multiplied.
        Weights keep their precision, and every product is computed in float32.
    quantize: whether to store the weights as whole numbers of eight bits. Each output has a scale,
        so that its largest weight becomes 127.
    """

    def __init__(
        self,
        weight: Float[Tensor, "out in"],
        bias: Float[Tensor, "out"] | None,
        *,
        quantize: bool = False,
    ) -> None:
        outputs, inputs = weight.shape
        self._scale: Tensor | None = None
        if quantize:
            weight = weight.float() if weight.dtype is torch.bfloat16 else weight
            largest = weight.abs().amax(dim=1, keepdim=True)
            self._scale = largest.clamp(min=torch.finfo(weight.dtype).tiny) / LARGEST
            weight = (weight / self._scale).round().to(torch.int8)
        self._panels = _arranged(weight)
        self._bias = None if bias is None else _single(bias)
        self.matrix: Matrix = Matrix(
            panels=self._panels.data_ptr(),
            bias=None if self._bias is None else self._bias.data_ptr(),
            scale=None if self._scale is None else self._scale.data_ptr(),
            outputs=outputs,
            inputs=inputs,
            kind=KINDS[self._panels.dtype],
        )

    @property
    def is_quantized(self) -> bool:
        """Returns whether the weights have eight bits."""
        return self._scale is not None

    def to_dense(self) -> Float[Tensor, "out in"]:
        """Returns the weights as a plain matrix, rounded if they were quantized."""
        full = self._panels
        if full.dtype is torch.bfloat16:
            full = full.transpose(2, 3).flatten(1, 2)
        weight = full.transpose(1, 2).flatten(0, 1)[: self.matrix.outputs, : self.matrix.inputs]
        return weight.contiguous() if self._scale is None else weight * self._scale

    def product(self, x: Float[Tensor, "*rows in"]) -> Float[Tensor, "*rows out"]:
        """Returns the layer's output, in x's precision.

        A row's result does not depend on the other rows.
        """
        native = library()
        assert native is not None
        rows = _single(x)
        out = rows.new_empty((*x.shape[:-1], self.matrix.outputs))
        native.outrider_product(
            ctypes.byref(self.matrix),
            ctypes.c_void_p(rows.data_ptr()),
            ctypes.c_void_p(out.data_ptr()),
            x.numel() // self.matrix.inputs,
            native_threads(),
        )
        return out.to(x.dtype)


def _arranged(weight: Float[Tensor, "out in"]) -> Tensor:
    """Returns the panels [panel, in, WIDTH] of a matrix, or [panel, pair, WIDTH, 2] in bfloat16."""
    is_paired = weight.dtype is torch.bfloat16
    missing = (-weight.shape[1] % DEPTH if is_paired else 0, -weight.shape[0] % WIDTH)
    if any(missing):  # padding copies the matrix
        weight = pad(weight, (0, missing[0], 0, missing[1]))
    inputs = (weight.shape[1] // 2, 2) if is_paired else (weight.shape[1],)
    return weight.reshape(-1, WIDTH, *inputs).transpose(1, 2).contiguous()


def _single(x: Tensor) -> Tensor:
    """Returns a tensor in float32; one in float64 is unchanged, since it is never multiplied."""
    return (x.float() if x.dtype is torch.bfloat16 else x).contiguous()


def can_panel(weight: Tensor) -> bool:
    """Returns whether the native library can multiply with a matrix."""
    is_plain = weight.dtype in PRECISIONS and weight.device.type == "cpu"
    return is_plain and library() is not None
