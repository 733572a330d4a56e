"""The native library: products and passes whose rows don't depend on each other, by any threads."""

import os
import signal
import threading
from typing import Any

import pytest
import torch
from tiny.native import tiny_native_model

from outrider.extras.cpu import library as native
from outrider.extras.cpu import packed_matrix as panels
from outrider.extras.cpu.packed_matrix import Panels
from outrider.extras.cpu.processor import cpu_flags
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.masks import additive_mask, tree_mask
from outrider.targets.passes.pass_input import PassInput

PRECISIONS = (torch.float32, torch.bfloat16)

IDS = torch.randint(0, 90, (1, 130), generator=torch.Generator().manual_seed(1))


def read(native_model: Any, parts: list[int]) -> torch.Tensor:
    """Returns the logits of a text that is read in parts."""
    cache = GrowingCache()
    passes = [
        run_pass(native_model, cache, PassInput(ids, ids.shape[1]))
        for ids in IDS[:, : sum(parts)].split(parts, dim=1)
    ]
    return torch.cat([result.logits for result in passes], dim=1)


@pytest.mark.parametrize("parts", [[30] * 4, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 42], [64, 56]])
def test_a_text_has_the_same_logits_in_passes_of_any_length(
    native_model: Any, parts: list[int]
) -> None:
    assert read(native_model, parts).dtype is torch.float32
    assert torch.equal(read(native_model, parts), read(native_model, [1] * 120))


@pytest.mark.parametrize("heads", [(6, 2, 16), (4, 4, 48), (14, 1, 80)])
@pytest.mark.parametrize("parts", [[129], [1, 128], [31, 66, 32]])
# Where inputs of products are rounded to bfloat16, another order of sums may round one to the next.
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-3)])
def test_a_long_chain_has_the_logits_of_its_tokens_up_to_rounding(
    heads: tuple[int, int, int], parts: list[int], dtype: torch.dtype, most: float
) -> None:
    made = tiny_native_model(heads, dtype)
    torch.testing.assert_close(read(made, parts), read(made, [1] * 129), rtol=most, atol=most)


def test_a_path_of_a_tree_has_the_logits_of_its_text(native_model: Any) -> None:
    cache = GrowingCache()
    run_pass(native_model, cache, PassInput(IDS[:, :40], 1))
    tree = tree_mask([-1, -1, 0, 1, 1, 4], pending=0, cached=40)
    mask = additive_mask(tree.sees, native_model.dtype)[None, None]
    nodes = IDS[:, 40:46]
    scored = run_pass(native_model, cache, PassInput(nodes, 6, mask, tree.positions[None])).logits
    for path in ([0, 2], [1, 3], [1, 4, 5]):
        cache = GrowingCache()
        run_pass(native_model, cache, PassInput(IDS[:, :40], 1))
        chain = run_pass(native_model, cache, PassInput(nodes[:, path], len(path))).logits
        assert torch.equal(scored[:, path], chain)


@pytest.fixture(scope="module", params=["this", "short", "older"])
def built(request: pytest.FixtureRequest) -> Any:
    """The library for this processor, with products of bfloat16, and for older processors."""
    if request.param == "this":
        return native.library()
    if request.param == "short":
        library = request.getfixturevalue("short_library")
        is_short = "avx512_bf16" in cpu_flags()
        assert library.outrider_rounds_inputs(panels.KINDS[torch.bfloat16]) == is_short
        return library
    older = request.getfixturevalue("older_library")
    assert not older.outrider_has_tiles()
    assert not any(map(older.outrider_rounds_inputs, range(10)))
    return older


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("shape", [(64, 16), (33, 7), (100, 48), (1, 5), (40, 65)])
def test_products_are_right_for_any_number_of_rows(
    built: Any, shape: tuple[int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panels, "library", lambda: built)
    weight, bias = torch.randn(shape).to(dtype), torch.randn(shape[0]).to(dtype)
    packed, x = Panels(weight, bias), torch.randn(100, shape[1])
    assert torch.equal(packed.to_dense(), weight)
    rounds = built.outrider_rounds_inputs(panels.KINDS[dtype])
    inputs = x.bfloat16() if rounds else x
    right = inputs.double() @ weight.double().T + bias.double()
    alone = torch.cat([packed.product(row) for row in x.split(1)])
    torch.testing.assert_close(alone.double(), right, rtol=1e-5, atol=1e-5)
    for rows in (2, 5, 6, 10, 11, 12, 13, 25, 32, 100):
        assert torch.equal(packed.product(x[:rows]), alone[:rows])


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_a_product_has_the_precision_of_its_rows(dtype: torch.dtype) -> None:
    packed, x = Panels(torch.randn(48, 80).to(dtype), None), torch.randn(40, 80).bfloat16()
    exact = packed.product(x.float())
    assert torch.equal(packed.product(x), exact.bfloat16())


@pytest.fixture
def threads() -> Any:
    """Sets the number of threads for a test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_threads_change_nothing(native_model: Any, threads: Any) -> None:
    right = read(native_model, [30] * 4)
    for count in (1, 2, 5):
        threads(count)
        assert torch.equal(read(native_model, [30] * 4), right)


def test_callers_don_t_wait_for_each_other(native_model: Any, threads: Any) -> None:
    threads(2)
    right, results = read(native_model, [30] * 4), []
    callers = [
        threading.Thread(
            target=lambda: results.extend(read(native_model, [30] * 4) for _ in range(3))
        )
        for _ in range(3)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 9 and all(torch.equal(result, right) for result in results)


def test_a_forked_process_starts_threads_of_its_own(threads: Any) -> None:
    threads(2)
    panels, x = Panels(torch.randn(200, 16), None), torch.randn(3, 16)
    right = panels.product(x)
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # ends it if it waits for threads that are not there
        os._exit(not torch.equal(panels.product(x), right))
    assert os.waitpid(child, 0)[1] == 0


def test_the_library_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.DISABLE, "0")
    assert native.find() == native.Found(None, "OUTRIDER_NATIVE=0 switches it off")
    monkeypatch.delenv(native.DISABLE)
    assert native.find().library is not None
