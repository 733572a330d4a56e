"""The patch of vLLM's sampling."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from outrider.extras.serving.vllm_patch import PATCH, expand_batch_to_tokens, register


def wrong(*arguments: Any, **settings: Any) -> None:
    """Fills nothing, like vLLM's own."""


def right(*arguments: Any, **settings: Any) -> torch.Tensor:
    """Another function that is right, such as that of a later version."""
    return expand_batch_to_tokens(*arguments, **settings)


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The module of an engine with this function, on a CPU or not."""
    function, on_cpu = request.param
    names = ("vllm", "vllm.platforms", "vllm.v1", "vllm.v1.sample")
    sample = [ModuleType(name) for name in (*names, "vllm.v1.sample.rejection_sampler")]
    for module in sample:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    _, platforms, _, package, found = sample
    platforms.current_platform = ModuleType("cpu")  # type: ignore[attr-defined]
    platforms.current_platform.is_cpu = lambda: on_cpu
    package.rejection_sampler = found  # type: ignore[attr-defined]
    found.expand_batch_to_tokens = function  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("sampler", "asked", "is_patched"),
    [
        ((wrong, True), "1", True),
        ((wrong, True), "0", False),
        ((wrong, False), "1", False),
        ((right, True), "1", False),
    ],
    indirect=["sampler"],
)
def test_the_function_is_replaced_where_it_is_wrong_and_only_if_asked(
    sampler: Any, asked: str, is_patched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATCH, asked)
    register()
    assert (sampler.expand_batch_to_tokens is expand_batch_to_tokens) == is_patched


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_each_token_gets_the_setting_of_its_request(dtype: torch.dtype) -> None:
    settings = torch.tensor([2, 0, 3, 5], dtype=dtype)
    ends = torch.tensor([2, 5, 5, 6], dtype=torch.int32)  # the third request has no draft
    expanded = expand_batch_to_tokens(settings, ends, 6, replace_from=0, replace_to=1)
    assert expanded.tolist() == [2, 2, 1, 1, 1, 5]
    assert expanded.dtype == dtype
    assert expand_batch_to_tokens(settings, ends, 6).tolist() == [2, 2, 0, 0, 0, 5]
