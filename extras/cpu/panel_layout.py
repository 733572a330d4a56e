"""The memory layouts of the native library's matrices: panels, written in pieces and read back."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from jaxtyping import Float, Num
from torch import Tensor
from torch.nn.functional import pad

from outrider.extras.cpu.memory import empty_in_huge_pages
from outrider.extras.cpu.processor import native_threads, one_thread

WIDTH = 32
"""The number of outputs in a panel."""

LANES = 16
"""The number of outputs in half a panel."""

ZERO = 128
"""What stands for 0 in groups of eight bits."""

DEPTH = 32
"""The number of inputs of a tile or group; panels of bfloat16 and four bits have a multiple."""

LARGEST = 127
"""The largest absolute value of a weight of eight bits."""

PIECE = 1 << 20
"""About how many weights are rounded at once: whole panels that stay in the processor's cache."""

TINY = 1e-30
"""Stands for a scale of 0, where all weights of a group are the same."""


def arranged(weight: Num[Tensor, "out in"]) -> Tensor:
    """Returns the panels [panel, in, WIDTH] of a matrix, or [panel, pair, WIDTH, 2] in bfloat16."""
    outputs, inputs = -(-weight.shape[0] // WIDTH), weight.shape[1]
    if weight.dtype is not torch.bfloat16:
        return _filled((outputs, inputs, WIDTH), weight.dtype, weight, _write_numbers)
    # A pair is moved as one number, which takes a third of the time.
    pairs = -(-inputs // DEPTH) * DEPTH // 2
    panels = _filled((outputs, pairs, WIDTH), torch.int32, weight, _write_numbers)
    return torch.unflatten(panels.view(torch.bfloat16), 2, (WIDTH, 2))


def grouped(weight: Float[Tensor, "out in"], bits: int | None) -> Tensor:
    """Returns panels of groups as bytes [panel, half, group, size], 320 of them or 544."""
    outputs, inputs = -(-weight.shape[0] // WIDTH), weight.shape[1]
    size = LANES * (4 + DEPTH // 2 if bits == 4 else 2 + DEPTH)
    shape = (outputs, 2, inputs // DEPTH, size)
    return _filled(shape, torch.uint8, weight, _write_pairs if bits == 4 else _write_bytes)


def _filled(
    shape: Sequence[int],
    dtype: torch.dtype,
    weight: Num[Tensor, "out in"],
    write: Callable[[Tensor, Tensor], None],
) -> Tensor:
    """Returns panels of a shape, which threads have filled in pieces; each needs little memory.

    write: called with rows of the matrix, as many as whole panels have, and with these panels.
    """
    panels = empty_in_huge_pages(shape, dtype)
    count = max(1, PIECE // (WIDTH * weight.shape[1]))
    is_inference = torch.is_inference_mode_enabled()  # which each thread has for itself

    def fill(rows: Tensor, piece: Tensor) -> None:
        with torch.inference_mode(is_inference):
            missing = WIDTH * len(piece) - len(rows)
            rows = pad(rows, (0, 0, 0, missing)) if missing else rows
            write(rows.contiguous(), piece)

    pieces = torch.split(weight, count * WIDTH), torch.split(panels, count)
    with one_thread(), ThreadPoolExecutor(native_threads()) as pool:  # PyTorch's wait at each step
        for _ in pool.map(fill, *pieces):
            pass
    return panels


def _write_numbers(rows: Num[Tensor, "out in"], panels: Tensor) -> None:
    """Writes panels of numbers as they are, or of pairs of them."""
    if missing := panels.shape[1] * panels.element_size() // rows.element_size() - rows.shape[1]:
        rows = pad(rows, (0, missing))
    numbers = rows.view(panels.dtype)
    panels.copy_(torch.unflatten(numbers, 0, (-1, WIDTH)).transpose(1, 2))


def _write_pairs(rows: Float[Tensor, "out in"], panels: Tensor) -> None:
    """Writes panels of four bits: scales, least weights, pairs.

    A pair is an input of the first four of eight, and its counterpart among the others.
    """
    groups = torch.unflatten(widened(rows), 1, (-1, DEPTH))
    smallest, largest = groups.amin(2), groups.amax(2)
    least, scale = smallest.half(), ((largest - smallest) / 15).half()
    steps = groups - least.to(groups)[..., None]
    steps = steps.div_(scale.to(groups).clamp(min=TINY)[..., None]).round_().clamp_(0, 15)
    whole = torch.unflatten(steps.to(torch.uint8), 2, (DEPTH // 8, 2, 4))
    pairs = whole[..., 0, :] | whole[..., 1, :] << 4
    halves, fours = panels.view(torch.half), panels.view(torch.int32)
    halves[..., :LANES] = _by_lanes(scale)
    halves[..., LANES : 2 * LANES] = _by_lanes(least)
    fours[..., LANES:] = _by_lanes(pairs.view(torch.int32)[..., 0])


def _write_bytes(rows: Float[Tensor, "out in"], panels: Tensor) -> None:
    """Writes panels of eight bits: scales, weights by fours."""
    groups = torch.unflatten(widened(rows), 1, (-1, DEPTH))
    scale = (groups.abs().amax(2) / LARGEST).half()
    steps = groups / scale.to(groups).clamp(min=TINY)[..., None]
    whole = steps.round_().clamp_(-LARGEST, LARGEST).add_(ZERO).to(torch.uint8)
    panels.view(torch.half)[..., :LANES] = _by_lanes(scale)
    panels.view(torch.int32)[..., LANES // 2 :] = _by_lanes(whole.view(torch.int32))


def _by_lanes(parts: Num[Tensor, "out group *part"]) -> Tensor:
    """Returns parts of groups as [panel, half, group, part * LANES]."""
    halves = torch.unflatten(parts, 0, (-1, 2, LANES))
    return halves.movedim(2, -1).flatten(3)


def from_pairs(panels: Tensor) -> Float[Tensor, "panel in width"]:
    """Returns the weights of panels of four bits."""
    scale, least, pairs = torch.split(panels, [2 * LANES, 2 * LANES, LANES * DEPTH // 2], dim=3)
    pairs = torch.unflatten(pairs, 3, (DEPTH // 8, LANES, 4)).transpose(-1, -2)
    whole = torch.stack([pairs & 15, pairs >> 4], dim=4).flatten(3, 5)
    scale, least = (part.contiguous().view(torch.half)[..., None, :] for part in (scale, least))
    return _whole_panels(torch.addcmul(least.float(), whole.float(), scale.float()))


def from_bytes(panels: Tensor) -> Float[Tensor, "panel in width"]:
    """Returns the weights of panels of eight bits in groups."""
    scale, fours = torch.split(panels, [2 * LANES, LANES * DEPTH], dim=3)
    whole = torch.unflatten(fours, 3, (DEPTH // 4, LANES, 4)).transpose(-1, -2).flatten(3, 4)
    scale = scale.contiguous().view(torch.half)[..., None, :]
    return _whole_panels((whole.float() - ZERO) * scale.float())


def _whole_panels(groups: Tensor) -> Float[Tensor, "panel in width"]:
    """Returns panels in one piece, from [panel, half, group, input, output]."""
    return groups.flatten(2, 3).permute(0, 2, 1, 3).flatten(2, 3)


def widened(x: Tensor) -> Tensor:
    """Returns a tensor in float32 if it is in bfloat16."""
    return x.float() if x.dtype is torch.bfloat16 else x
