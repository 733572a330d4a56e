"""Masks: each token sees the text before it, the path to it and itself, and nothing else."""

import random

import pytest
import torch

from outrider.contract.draft import Draft
from outrider.targets.passes.tree_mask import additive_mask, causal, tree_mask


@pytest.mark.parametrize("cached", [0, 3])
@pytest.mark.parametrize("pending", [0, 1, 4])
def test_each_token_sees_its_own_past(cached: int, pending: int) -> None:
    draw = random.Random(cached + pending)
    for size in range(9):
        parents = tuple(draw.randrange(-1, node) for node in range(size))
        draft = Draft((0,) * size, parents, (None,) * size)
        tree = tree_mask(parents, pending=pending, cached=cached)
        text = cached + pending
        assert tree.sees.shape == (pending + size, text + size)
        for row in range(pending):
            assert tree.sees[row].nonzero()[:, 0].tolist() == list(range(cached + row + 1))
            assert tree.positions[row] == cached + row
        for node in range(size):
            path = draft.path(node)
            seen = [*range(text), *(text + step for step in path)]
            assert tree.sees[pending + node].nonzero()[:, 0].tolist() == seen
            assert tree.positions[pending + node] == text + len(path) - 1


def test_a_tree_may_be_read_in_parts() -> None:
    for parents in ([-1, -1, 0, 2, 1, 3], [-1, 0, 1, 2, 3, 4]):
        whole = tree_mask(parents, cached=5)
        for first in range(len(parents)):
            part = tree_mask(parents, cached=5, first=first)
            assert torch.equal(part.sees, whole.sees[first:])
            assert torch.equal(part.positions, whole.positions[first:])


def test_a_chain_sees_everything_up_to_itself() -> None:
    assert causal(2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    tree = tree_mask([-1, 0, 1], pending=2, cached=4)
    assert torch.equal(tree.sees, causal(5, 9))
    assert tree.positions.tolist() == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_masked_places_hold_the_lowest_value_of_the_precision(dtype: torch.dtype) -> None:
    mask = additive_mask(causal(1, 3), dtype)
    assert mask.dtype == dtype and mask.tolist() == [[0, 0, 0]]
    nothing = additive_mask(torch.zeros(1, 3, dtype=torch.bool), dtype)
    assert nothing.eq(torch.finfo(dtype).min).all()
    assert nothing.softmax(-1).isfinite().all()
