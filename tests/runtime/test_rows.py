"""Rows are appended, dropped and moved like those of one matrix."""

import torch

from outrider.runtime.rows import FIRST, Rows


def test_rows_are_those_of_a_matrix() -> None:
    rows, right = Rows(), torch.empty(0, 3)
    for seed, count in enumerate((4, 300, FIRST, 1, 700)):
        new = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
        rows.extend(new)
        right = torch.cat([right, new])
        assert torch.equal(rows.all(), right) and len(rows) == len(right)
        rows.crop(len(right) - 1)
        right = right[:-1]
        assert torch.equal(rows.all(), right)
    start = len(right) - 5
    rows.retain_rows(start, [1, 4])
    assert torch.equal(rows.all(), torch.cat([right[:start], right[start:][[1, 4]]]))


def test_nothing_is_kept_of_nothing() -> None:
    rows = Rows()
    rows.crop(3)
    rows.retain_rows(0, [])
    assert len(rows) == 0
