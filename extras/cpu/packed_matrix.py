"""A matrix in the memory layout of the native library."""

import ctypes
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from outrider.extras.cpu.huge_pages import in_huge_pages
from outrider.extras.cpu.library import library
from outrider.extras.cpu.threads import native_threads

WIDTH = 32
"""The number of outputs in a panel."""

LANES = 16
"""The number of outputs in half a panel."""

KINDS = {torch.float32: 0, torch.int8: 1, torch.bfloat16: 2}
"""The library's numbers for the types that a matrix is stored in."""

GROUPED = {4: 3, 8: 4}
"""The library's numbers for matrices in groups, by their bits."""

SHORT_INPUTS = 5
"""The library's number for eight bits in groups, whose inputs are rounded to eight bits too."""

ZERO = 128
"""What stands for 0 in groups of eight bits."""

PRECISIONS = (torch.float32, torch.bfloat16)
"""The types of matrices that are stored unchanged."""

DEPTH = 32
"""The number of inputs of a tile or group; panels of bfloat16 and four bits have a multiple."""

LARGEST = 127
"""The largest absolute value of a weight of eight bits."""

PIECE = 4096
"""The rows that are rounded at once, whole panels of them."""

TINY = 1e-30
"""Stands for a scale of 0, where all weights of a group are the same."""


@final
class Matrix(ctypes.Structure):
    """A matrix in the library's memory layout; the fields are those of the native library."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("panels", "bias", "scale")),
        *((name, ctypes.c_int64) for name in ("outputs", "inputs", "kind")),
    )


@final
class Panels:
    """The weights [outputs, inputs] of a linear layer, stored in panels of 32 outputs.

    weight, bias: float32 or bfloat16, on the CPU; float64 can be quantized, but not multiplied.
        Weights keep their precision, and every product is computed in float32.
    bits: 8 stores the weights as whole numbers. Each 32 inputs of an output have a scale in
        float16, so that the largest weight becomes 127; if the number of inputs is no multiple of
        32, each output has one scale. 4 stores them as numbers from 0 to 15. Each 32 inputs of an
        output have a scale and a smallest weight, both in float16, so the number of inputs must be
        a multiple of 32. None stores the weights unchanged.
    short_inputs: whether the inputs of weights in groups of eight bits are rounded to eight bits
        too, where the processor multiplies bytes. By default it rounds them to fifteen, which
        takes twice as long for many rows. Defaults to False.
    """

    def __init__(
        self,
        weight: Float[Tensor, "out in"],
        bias: Float[Tensor, "out"] | None,
        *,
        bits: int | None = None,
        short_inputs: bool = False,
    ) -> None:
        outputs, inputs = weight.shape
        self._scale: Tensor | None = None
        self.bits: int | None = bits
        self._grouped = bits == 4 or (bits == 8 and inputs % DEPTH == 0)
        if bits == 8 and not self._grouped:
            weight = _widened(weight)
            largest = weight.abs().amax(dim=1, keepdim=True)
            self._scale = largest.clamp(min=torch.finfo(weight.dtype).tiny) / LARGEST
            weight = (weight / self._scale).round().to(torch.int8)
        if self._grouped:  # in pieces, since rounding takes several times a piece's memory
            rounded = _pairs if bits == 4 else _bytes
            panels = torch.cat([rounded(_widened(piece)) for piece in torch.split(weight, PIECE)])
        else:
            panels = _arranged(weight)
        self._panels: Tensor = in_huge_pages(panels)
        self._bias = None if bias is None else _single(bias)
        self.matrix: Matrix = Matrix(
            panels=self._panels.data_ptr(),
            bias=None if self._bias is None else self._bias.data_ptr(),
            scale=None if self._scale is None else self._scale.data_ptr(),
            outputs=outputs,
            inputs=inputs,
            kind=GROUPED[bits] if bits and self._grouped else KINDS[self._panels.dtype],
        )
        if short_inputs and self.matrix.kind == GROUPED[8]:
            self.matrix.kind = SHORT_INPUTS

    def to_dense(self) -> Float[Tensor, "out in"]:
        """Returns the weights as a plain matrix, rounded if they were quantized."""
        full = self._panels
        if self._grouped:
            full = _from_pairs(full) if self.bits == 4 else _from_bytes(full)
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
    return weight.reshape(-1, WIDTH, *inputs).transpose(1, 2)


def _pairs(weight: Float[Tensor, "out in"]) -> Tensor:
    """Returns panels of four bits as bytes [panel, half, group, 320]: scales, least weights, pairs.

    A pair is an input of the first four of eight, and its counterpart among the others.
    """
    groups = _halves(weight)  # [panel, half, group, DEPTH, LANES]
    smallest, largest = groups.aminmax(dim=3, keepdim=True)
    least, scale = smallest.half(), ((largest - smallest) / 15).half()
    steps = (groups - least.to(groups)) / scale.to(groups).clamp(min=TINY)
    whole = torch.unflatten(steps.round().clamp(0, 15).to(torch.uint8), 3, (DEPTH // 8, 2, 4))
    pairs = (whole[..., 0, :, :] | whole[..., 1, :, :] << 4).transpose(-1, -2)
    parts = (scale.view(torch.uint8), least.view(torch.uint8), pairs)
    return torch.cat([part.flatten(3) for part in parts], dim=3)


def _from_pairs(panels: Tensor) -> Float[Tensor, "panel in width"]:
    """Returns the weights of panels of four bits."""
    scale, least, pairs = torch.split(panels, [2 * LANES, 2 * LANES, LANES * DEPTH // 2], dim=3)
    pairs = torch.unflatten(pairs, 3, (DEPTH // 8, LANES, 4)).transpose(-1, -2)
    whole = torch.stack([pairs & 15, pairs >> 4], dim=4).flatten(3, 5)
    scale, least = (part.contiguous().view(torch.half)[..., None, :] for part in (scale, least))
    return _whole_panels(torch.addcmul(least.float(), whole.float(), scale.float()))


def _bytes(weight: Float[Tensor, "out in"]) -> Tensor:
    """Returns panels of eight bits as bytes [panel, half, group, 544]: scales, weights by fours."""
    groups = _halves(weight)
    scale = (groups.abs().amax(dim=3, keepdim=True) / LARGEST).half()
    whole = (groups / scale.to(groups).clamp(min=TINY)).round().clamp(-LARGEST, LARGEST) + ZERO
    fours = torch.unflatten(whole.to(torch.uint8), 3, (DEPTH // 4, 4)).transpose(-1, -2)
    return torch.cat([scale.view(torch.uint8).flatten(3), fours.flatten(3)], dim=3)


def _from_bytes(panels: Tensor) -> Float[Tensor, "panel in width"]:
    """Returns the weights of panels of eight bits in groups."""
    scale, fours = torch.split(panels, [2 * LANES, LANES * DEPTH], dim=3)
    whole = torch.unflatten(fours, 3, (DEPTH // 4, LANES, 4)).transpose(-1, -2).flatten(3, 4)
    scale = scale.contiguous().view(torch.half)[..., None, :]
    return _whole_panels((whole.float() - ZERO) * scale.float())


def _halves(weight: Float[Tensor, "out in"]) -> Float[Tensor, "panel half group depth lanes"]:
    """Returns a matrix by halves of panels and groups of inputs, in float32 or float64."""
    missing = -weight.shape[0] % WIDTH
    weight = pad(weight, (0, 0, 0, missing)) if missing else weight
    parts = weight.reshape(-1, 2, LANES, weight.shape[1] // DEPTH, DEPTH).permute(0, 1, 3, 4, 2)
    return parts if parts.is_floating_point() else parts.float()


def _whole_panels(groups: Tensor) -> Float[Tensor, "panel in width"]:
    """Returns panels in one piece, from [panel, half, group, input, output]."""
    return groups.flatten(2, 3).permute(0, 2, 1, 3).flatten(2, 3)


def _widened(x: Tensor) -> Tensor:
    """Returns a tensor in float32 if it is in bfloat16."""
    return x.float() if x.dtype is torch.bfloat16 else x


def _single(x: Tensor) -> Tensor:
    """Returns a tensor in float32; one in float64 is unchanged, since it is never multiplied."""
    return _widened(x).contiguous()


def can_panel(weight: Tensor) -> bool:
    """Returns whether the native library can multiply with a matrix."""
    is_plain = is_unwrapped(weight) and weight.dtype in PRECISIONS and weight.device.type == "cpu"
    return is_plain and library() is not None


def is_unwrapped(weight: Tensor) -> bool:
    """Returns whether a tensor has numbers of its own, as torchao's rounded weights have not."""
    return not hasattr(weight, "__tensor_flatten__")
