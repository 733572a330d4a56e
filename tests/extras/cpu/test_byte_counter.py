"""What products read is counted to the byte, by PyTorch and by the native library alike."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from outrider.extras.cpu import native_pass
from outrider.extras.cpu import packed_matrix as panels
from outrider.extras.cpu.packed_linear import PackedLinear, product
from outrider.targets.passes.byte_counter import ByteCounter
from outrider.targets.passes.engine import run_pass, use_engine
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput

X = torch.randn(1, 3, 16)
WEIGHT = torch.randn(48, 16)


def counted(work: Callable[[], Any]) -> int:
    with torch.no_grad(), ByteCounter() as reads:
        work()
    return reads.bytes


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "multiply",
    [
        lambda layer: layer(X),
        lambda layer: product(layer, X),
        lambda layer: linear(X, layer.weight, layer.bias),
        lambda layer: X @ layer.weight.T,
        lambda layer: layer.weight @ X[0, 0],
    ],
)
def test_a_product_reads_its_matrix(multiply: Callable[[Any], Tensor], bias: bool) -> None:
    assert counted(lambda: multiply(nn.Linear(16, 48, bias=bias))) == 4 * 48 * 16


def test_a_packed_product_reads_its_packed_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = nn.Linear(16, 48, bias=False)
    native, rounded = PackedLinear(layer), PackedLinear(layer, bits=8)
    assert counted(lambda: product(native, X)) == 4 * 64 * 16  # in whole panels of 32 outputs
    assert counted(lambda: product(rounded, X)) == 64 * 16 + 4 * 48  # and the scale of each output
    monkeypatch.setattr(panels, "library", lambda: None)
    monkeypatch.setattr("outrider.extras.cpu.packed_linear.can_panel", lambda _: False)
    plain = PackedLinear(layer)
    assert counted(lambda: product(plain, X)) == 4 * 48 * 16


def test_a_block_counts_the_products_inside() -> None:
    with torch.no_grad():
        with ByteCounter() as outer:
            linear(X, WEIGHT)
            with ByteCounter() as inner:
                product(PackedLinear(nn.Linear(16, 32, bias=False)), X)
        linear(X, WEIGHT)
    assert (outer.bytes, inner.bytes) == (4 * (48 * 16 + 32 * 16), 4 * 32 * 16)


@pytest.mark.parametrize("is_native", [True, False])
def test_a_pass_reads_all_matrices_and_the_cache(
    is_native: bool, llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 96, "num_hidden_layers": 2}
    model = llama(**sizes, tie_word_embeddings=False)
    weights = sum(parameter.nbytes for parameter in model.parameters() if parameter.dim() == 2)
    weights -= model.get_input_embeddings().weight.nbytes  # only looked up
    if not is_native:
        monkeypatch.setattr(panels, "library", lambda: None)
        monkeypatch.setattr("outrider.extras.cpu.packed_linear.can_panel", lambda _: False)
    else:  # keys and values are 16 wide: half a panel
        weights += 2 * 2 * 4 * 16 * 32
    use_engine(model, "packed")
    assert native_pass.is_used_for(model) is is_native
    cache = GrowingCache()
    run_pass(model, cache, PassInput(torch.arange(7)[None], 1))
    read = counted(lambda: run_pass(model, cache, PassInput(torch.tensor([[8, 9]]), 1)))
    copies = 1 if is_native else 2  # PyTorch reads keys and values once for each head of queries
    assert read == weights + copies * 2 * 2 * 4 * 16 * (7 + 2)  # of two layers
