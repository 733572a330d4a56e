"""Panels are the same in pieces as in one, and in any mode of PyTorch's."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from outrider.extras.cpu import panel_layout
from outrider.extras.cpu.panel_layout import arranged, grouped

LAYOUTS: list[tuple[torch.dtype, Callable[[Tensor], Tensor]]] = [
    (torch.float32, arranged),
    (torch.bfloat16, arranged),
    (torch.int8, arranged),
    (torch.float32, lambda weight: grouped(weight, 4)),
    (torch.bfloat16, lambda weight: grouped(weight, 8)),
]


@pytest.mark.parametrize(("dtype", "layout"), LAYOUTS)
def test_pieces_make_the_same_panels(
    dtype: torch.dtype, layout: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = torch.randn(200, 64).mul(9).to(dtype)
    whole = layout(weight)
    monkeypatch.setattr(panel_layout, "PIECE", 64 * panel_layout.WIDTH)
    assert torch.equal(layout(weight), whole)
    odd = layout(weight[:, :64].T.contiguous().T)  # not side by side in memory
    assert torch.equal(odd, whole)


def test_panels_are_made_in_inference_mode_too() -> None:
    weight = torch.randn(40, 32)
    with torch.inference_mode():
        inside = grouped(weight, 8), arranged(weight)
    assert torch.equal(inside[0], grouped(weight, 8)) and torch.equal(inside[1], arranged(weight))
