"""Growing tensors hold the rows of one matrix, whatever is appended, dropped and moved."""

import pytest
import torch

from outrider.targets.passes.growing_tensor import SPARE, GrowingTensor


def test_rows_are_those_of_a_matrix() -> None:
    rows, right = GrowingTensor(), torch.empty(0, 3)
    for seed, count in enumerate((4, 300, SPARE, 1, 700)):
        new = torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))
        right = torch.cat([right, new])
        assert torch.equal(rows.append(new), right)
        assert torch.equal(rows.content, right) and len(rows) == len(right)
        rows.crop(len(right) - 1)
        right = right[:-1]
        assert torch.equal(rows.content, right)
    start = len(right) - 5
    rows.retain_rows(start, torch.tensor([start + 1, start + 4]))
    assert torch.equal(rows.content, torch.cat([right[:start], right[start:][[1, 4]]]))


def test_an_empty_tensor_stays_empty() -> None:
    rows = GrowingTensor()
    rows.crop(3)
    rows.retain_rows(0, torch.empty(0, dtype=torch.long))
    rows.select(torch.tensor([0]))
    assert len(rows) == 0


def test_rows_move_only_when_the_room_is_full() -> None:
    rows = GrowingTensor()
    before = rows.append(torch.zeros(5 * SPARE, 3)).data_ptr()
    for _ in range(SPARE):
        assert rows.append(torch.ones(1, 3)).data_ptr() == before
    assert rows.append(torch.ones(1, 3)).data_ptr() != before
    assert rows.content.sum() == 3 * (SPARE + 1)


@pytest.mark.parametrize("zeros", [False, True])
def test_reserved_room_holds_zeros_on_request(zeros: bool) -> None:
    rows = GrowingTensor(spare=4, zeros=zeros)
    like = torch.full((2, 1, 3), 7.0)
    room = rows.reserve(5, like)
    assert room.shape == (2, 9, 3)
    assert rows.reserve(9, like) is room
    assert len(rows) == 0
    if zeros:
        room[1, 8] = 7
        wider = rows.reserve(10, like)
        assert wider.shape == (2, 18, 3)
        assert torch.equal(wider.nonzero()[:, :2].unique(dim=0), torch.tensor([[1, 8]]))


def test_gradients_flow_through_everything_that_was_appended() -> None:
    rows, parts = GrowingTensor(), [torch.randn(2, 3, requires_grad=True) for _ in range(3)]
    total = torch.zeros(())
    for factor, part in enumerate(parts, start=1):
        total = total + factor * rows.concatenate(part * 2).square().sum()
    rows.crop(4)
    with torch.no_grad():  # what is written later leaves the backward pass alone
        rows.retain_rows(1, torch.tensor([3]))
        rows.append(torch.zeros(1, 3))
    total.backward()  # type: ignore[no-untyped-call]
    for part, factor in zip(parts, (1 + 2 + 3, 2 + 3, 3), strict=True):
        torch.testing.assert_close(part.grad, 8 * factor * part.detach())
