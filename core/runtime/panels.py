"""Panels: a matrix as the native library reads it."""

import ctypes
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from outrider.runtime.native import library
from outrider.runtime.threads import native_threads

WIDTH = 32
"""Outputs of a panel."""

KINDS = {torch.float32: 0, torch.int8: 1}
"""The library's numbers for what a matrix is stored as."""

LARGEST = 127
"""The largest weight of eight bits, on either side of 0."""


@final
class Matrix(ctypes.Structure):
    """A matrix in the library's memory layout; the fields are those of `native.c`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("panels", "bias", "scale")),
        *((name, ctypes.c_int64) for name in ("outputs", "inputs", "kind")),
    )


@final
class Panels:
    """The weights [outputs, inputs] of a linear layer, 32 outputs next to each other.

    weight, bias: float32, on the CPU; float64 can be quantized, but not multiplied with.
    quantize: whether to store the weights as whole numbers of eight bits. Each output has a scale,
        so that its largest weight becomes 127. Sums stay in float32.
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
            largest = weight.abs().amax(dim=1, keepdim=True)
            self._scale = largest.clamp(min=torch.finfo(weight.dtype).tiny) / LARGEST
            weight = (weight / self._scale).round().to(torch.int8)
        missing = -outputs % WIDTH
        full = pad(weight, (0, 0, 0, missing)) if missing else weight  # padding copies all
        self._panels = full.reshape(-1, WIDTH, inputs).transpose(1, 2).contiguous()
        self._bias = None if bias is None else bias.contiguous()
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
        """Returns the weights as they were, or what eight bits have left of them."""
        weight = self._panels.transpose(1, 2).flatten(0, 1)[: self.matrix.outputs].contiguous()
        return weight if self._scale is None else weight * self._scale

    def product(self, x: Float[Tensor, "*rows in"]) -> Float[Tensor, "*rows out"]:
        """Returns the layer's product. A row's result does not depend on the other rows."""
        native = library()
        assert native is not None
        x = x.contiguous()
        out = x.new_empty((*x.shape[:-1], self.matrix.outputs))
        native.outrider_product(
            ctypes.byref(self.matrix),
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(out.data_ptr()),
            x.numel() // self.matrix.inputs,
            native_threads(),
        )
        return out


def can_panel(weight: Tensor) -> bool:
    """Returns whether the native library multiplies with a matrix."""
    is_plain = weight.dtype is torch.float32 and weight.device.type == "cpu"
    return is_plain and library() is not None
