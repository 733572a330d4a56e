"""A matrix in the memory layout of the native library."""

import ctypes
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.extras.cpu.library import library
from outrider.extras.cpu.memory import empty_in_huge_pages
from outrider.extras.cpu.panel_layout import (
    DEPTH,
    LARGEST,
    WIDTH,
    arranged,
    from_bytes,
    from_pairs,
    grouped,
    widened,
)
from outrider.extras.cpu.processor import native_threads
from outrider.targets.stored import FORMATS, StoredMatrix

KINDS = {torch.float32: 0, torch.int8: 1, torch.bfloat16: 2}
"""The library's numbers for the types that a matrix is stored in."""

GROUPED = {4: 3, 8: 4}
"""The library's numbers for matrices in groups, by their bits."""

PRECISIONS = (torch.float32, torch.bfloat16)
"""The types of matrices that are stored unchanged."""


@final
class Matrix(ctypes.Structure):
    """A matrix in the library's memory layout; the fields are those of the native library."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("panels", "bias", "scale")),
        *((name, ctypes.c_int64) for name in ("outputs", "inputs", "kind", "digits")),
    )


@final
class Panels:
    """The weights [outputs, inputs] of a linear layer, stored in panels of 32 outputs.

    weight, bias: float32 or bfloat16, on the CPU; float64 can be quantized, but not multiplied.
        Weights keep their precision, and every product is computed in float32. Those of a
        `StoredMatrix` keep the scales and whole numbers of their file.
    bits: 8 stores the weights as whole numbers. Each 32 inputs of an output have a scale in
        float16, so that the largest weight becomes 127; if the number of inputs is no multiple of
        32, each output has one scale. 4 stores them as numbers from 0 to 15. Each 32 inputs of an
        output have a scale and a smallest weight, both in float16, so the number of inputs must be
        a multiple of 32. None stores the weights unchanged.
    short_inputs: whether the inputs of weights in groups are rounded to eight bits too, where the
        processor multiplies bytes, as those of stored weights are. By default it rounds them to
        fifteen, which takes twice as long for many rows. Defaults to False.
    """

    def __init__(
        self,
        weight: Float[Tensor, "out in"] | StoredMatrix,
        bias: Float[Tensor, "out"] | None,
        *,
        bits: int | None = None,
        short_inputs: bool = False,
    ) -> None:
        self._scale: Tensor | None = None
        self._bias: Tensor | None = None if bias is None else _single(bias)
        self.bits: int | None = bits
        self.form: str | None = None
        if isinstance(weight, StoredMatrix):
            self._pack(weight)
            return
        outputs, inputs = weight.shape
        self._grouped = bits == 4 or (bits == 8 and inputs % DEPTH == 0)
        if bits == 8 and not self._grouped:
            weight = widened(weight)
            largest = weight.abs().amax(dim=1, keepdim=True)
            self._scale = largest.clamp(min=torch.finfo(weight.dtype).tiny) / LARGEST
            weight = (weight / self._scale).round().to(torch.int8)
        self._panels: Tensor = grouped(weight, bits) if self._grouped else arranged(weight)
        self.matrix: Matrix = Matrix(
            panels=self._panels.data_ptr(),
            bias=None if self._bias is None else self._bias.data_ptr(),
            scale=None if self._scale is None else self._scale.data_ptr(),
            outputs=outputs,
            inputs=inputs,
            kind=GROUPED[bits] if bits and self._grouped else KINDS[self._panels.dtype],
            digits=1 if short_inputs else 2,
        )

    def _pack(self, stored: StoredMatrix) -> None:
        """Packs a matrix as it is stored."""
        native, self.form = library(), stored.form
        number = ctypes.c_int64(FORMATS[stored.form])
        self.matrix = Matrix(
            bias=None if self._bias is None else self._bias.data_ptr(),
            outputs=len(stored.blocks),
            inputs=stored.inputs,
            kind=native.outrider_kind_of(number),
            digits=1,
        )
        size = native.outrider_panel_bytes(ctypes.byref(self.matrix))
        self._panels = empty_in_huge_pages((-(-self.matrix.outputs // WIDTH), size), torch.uint8)
        self._panels[-1].zero_()  # which may be filled in part
        self.matrix.panels = self._panels.data_ptr()
        blocks = ctypes.c_void_p(stored.blocks.data_ptr())
        native.outrider_pack(ctypes.byref(self.matrix), blocks, number, native_threads())

    def rows(self, outputs: Int[Tensor, "*count"]) -> Float[Tensor, "*count in"]:
        """Returns the weights of some outputs of a stored matrix.

        Raises `IndexError` for an output that it has not.
        """
        outputs = outputs.long().contiguous()
        count: int = self.matrix.outputs
        if outputs.numel() and not 0 <= int(outputs.min()) <= int(outputs.max()) < count:
            raise IndexError(f"expected rows from 0 to {count - 1}")
        found = torch.empty(*outputs.shape, self.matrix.inputs)
        library().outrider_read(
            ctypes.byref(self.matrix),
            ctypes.c_void_p(outputs.data_ptr()),
            ctypes.c_int64(outputs.numel()),
            ctypes.c_void_p(found.data_ptr()),
        )
        return found

    def to_dense(self) -> Float[Tensor, "out in"]:
        """Returns the weights as a plain matrix, rounded if they were quantized."""
        if self.form:
            return self.rows(torch.arange(self.matrix.outputs))
        full = self._panels
        if self._grouped:
            full = from_pairs(full) if self.bits == 4 else from_bytes(full)
        if full.dtype is torch.bfloat16:
            full = full.transpose(2, 3).flatten(1, 2)
        weight = full.transpose(1, 2).flatten(0, 1)[: self.matrix.outputs, : self.matrix.inputs]
        return weight.contiguous() if self._scale is None else weight * self._scale

    def product(self, x: Float[Tensor, "*rows in"]) -> Float[Tensor, "*rows out"]:
        """Returns the layer's output, in x's precision.

        A row's result does not depend on the other rows.
        """
        rows = _single(x)
        out = rows.new_empty((*x.shape[:-1], self.matrix.outputs))
        library().outrider_product(
            ctypes.byref(self.matrix),
            ctypes.c_void_p(rows.data_ptr()),
            ctypes.c_void_p(out.data_ptr()),
            x.numel() // self.matrix.inputs,
            native_threads(),
        )
        return out.to(x.dtype)


def can_panel(weight: Tensor) -> bool:
    """Returns whether the native library can multiply with a matrix."""
    is_plain = is_unwrapped(weight) and weight.dtype in PRECISIONS and weight.device.type == "cpu"
    return is_plain and library() is not None


def is_unwrapped(weight: Tensor) -> bool:
    """Returns whether a tensor has numbers of its own, as torchao's rounded weights have not."""
    return not hasattr(weight, "__tensor_flatten__")


def _single(x: Tensor) -> Tensor:
    """Returns a tensor in float32; one in float64 is unchanged, since it is never multiplied."""
    return widened(x).contiguous()
