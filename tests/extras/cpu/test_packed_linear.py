"""Packed weights: the same products, the same tensors, no second copy."""

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import linear

from outrider.extras.cpu import packed_matrix as panels
from outrider.extras.cpu.memory import trim
from outrider.extras.cpu.packed_linear import PackedLinear, can_pack, pack, product, rounded

SHAPES = [(8, 8), (48, 16), (31, 16), (100, 7)]


@pytest.fixture(autouse=True, params=["native", "PyTorch's"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "native":
        monkeypatch.setattr(panels, "library", lambda: None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, 3, 11, 40])
def test_products_are_those_of_the_plain_layer(
    rows: int, shape: tuple[int, int], bias: bool, dtype: torch.dtype
) -> None:
    layer = nn.Linear(shape[1], shape[0], bias=bias).to(dtype).requires_grad_(False)
    if not can_pack(layer):  # this processor has kernels for float32 alone
        assert dtype is torch.bfloat16
        with pytest.raises(RuntimeError, match="bf16"):
            PackedLinear(layer)
        return
    packed = PackedLinear(layer)
    x = torch.randn(2, rows, shape[1]).to(dtype)
    right = linear(x, layer.weight, layer.bias)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 2e-2, "atol": 3e-2}
    for either in (layer, packed):
        torch.testing.assert_close(product(either, x), right, **close)
    torch.testing.assert_close(packed(x), right, **close)


def test_kernels_are_made_for_few_numbers_of_rows() -> None:
    numbers = [rounded(rows) for rows in range(257)]
    assert sorted(set(numbers)) == [
        *(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32),
        *(40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256),
    ]
    assert all(rows <= number <= 1.25 * rows for rows, number in enumerate(numbers))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_plain_weights_come_back_bit_by_bit(shape: tuple[int, int]) -> None:
    layer = nn.Linear(shape[1], shape[0])
    model = nn.Sequential(layer)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pack(model)
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not list(model.parameters())


def test_a_matrix_that_an_embedding_shares_is_not_copied_back() -> None:
    model = nn.ModuleDict({"words": nn.Embedding(12, 4), "head": nn.Linear(4, 12, bias=False)})
    model["head"].weight = model["words"].weight
    pack(model)
    assert model["head"].weight.data_ptr() == model["words"].weight.data_ptr()


def test_a_layer_without_a_packed_kernel_is_left_alone() -> None:
    assert can_pack(nn.Linear(4, 4))
    assert not can_pack(nn.Linear(4, 4).double())
    assert not can_pack(nn.ReLU())


def test_a_mapped_file_is_let_go(tmp_path: Path) -> None:
    """Packed weights no longer count as memory of the file, and still have the file's values."""
    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.randn(2048, 1024)}, path)
    model = nn.Sequential(nn.Linear(1024, 2048, bias=False))
    mapped = safe_open(path, "pt").get_tensor("weight")
    model[0].weight = nn.Parameter(mapped, requires_grad=False)
    right = mapped.clone()
    assert resident(path) > 8000  # kB
    pack(model)
    assert resident(path) < 500
    assert torch.equal(model[0].weight, right) and torch.equal(mapped, right)


def resident(path: Path) -> int:
    """Returns how many kB of a file are in this process's memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    total = 0
    for line in lines:
        if line.endswith(str(path)):
            sizes = (field for field in lines if field.startswith("Rss:"))
            total += int(next(sizes).split()[1])
    return total


def test_memory_is_trimmed_only_where_the_c_library_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: name.encode())  # Windows takes no None
    monkeypatch.setattr(ctypes, "pythonapi", SimpleNamespace())
    trim()
