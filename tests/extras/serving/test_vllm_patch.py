"""The patches of vLLM: its sampling, and drafters in its second model runner."""

import sys
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import second_runner
import torch
from second_runner import GAMMA, Drawing

from outrider import ConfigError, Context, Drafter, Pen
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.extras.serving.vllm_patch import (
    LEAST,
    SECOND_RUNNER,
    OutriderSpeculator,
    expand_batch_to_tokens,
    patch_second_runner,
)
from outrider.extras.serving.vllm_plugin import PATCH, register


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


SIZE = 6
TABLE = torch.linspace(-1, 1, SIZE * SIZE, dtype=torch.float64).reshape(SIZE, SIZE).roll(7)
DRAWING = partial(Drawing, TABLE)


class Failing(Drafter):
    def propose(self, context: Context, pen: Pen) -> None:
        raise RuntimeError("bad luck")


def speculator(make: Any, texts: dict[int, list[int]]) -> OutriderSpeculator:
    return second_runner.speculator(make, texts, SIZE, version="0.32.0")


def call(
    served: OutriderSpeculator, slots: list[int], heats: dict[int, float], **more: Any
) -> torch.Tensor:
    temperature = torch.tensor([heats.get(slot, 0.0) for slot in range(8)])
    seeds = torch.arange(8) + more.pop("seed", 0)
    return second_runner.called(served, slots, temperature, seeds, **more)


def test_vllm_gets_the_distribution_of_each_drawn_token() -> None:
    served = speculator(DRAWING, {5: [1, 2], 2: [3]})
    (drafts, _) = call(served, [5, 2], {5: 0.5, 2: 1.0}).tolist()
    before = 2
    for token, logits in zip(drafts, served.draft_logits[5], strict=True):
        found = (logits / 0.5).softmax(-1)
        torch.testing.assert_close(found, (TABLE[before] / 0.5).softmax(-1).float())
        before = token


def test_drafts_repeat_with_their_seed_and_differ_without() -> None:
    served = speculator(DRAWING, {slot: [1, 2] for slot in range(8)})
    heats = dict.fromkeys(range(8), 1.0)
    first = call(served, list(range(8)), heats).clone()
    assert torch.equal(first, call(served, list(range(8)), heats))
    assert len({tuple(row) for row in first.tolist()}) > 1
    assert not torch.equal(first, call(served, list(range(8)), heats, seed=100))


def test_a_written_token_is_a_point_mass_and_a_short_draft_ends_in_the_last_token() -> None:
    served = speculator(PromptLookup, {0: [1, 2, 3, 1, 2], 1: [4, 5]})
    assert call(served, [0, 1], {0: 1.0}).tolist() == [[3, 1, 2], [5, 5, 5]]
    assert served.draft_logits[0].argmax(-1).tolist() == [3, 1, 2]
    assert served.draft_logits[:2].softmax(-1).amax(-1).tolist() == [[1.0] * GAMMA] * 2
    assert served.draft_logits.min() == LEAST


def test_greedy_requests_get_the_likeliest_tokens() -> None:
    served = speculator(DRAWING, {0: [1, 2]})
    best, last = [], 2
    for _ in range(GAMMA):
        last = int(TABLE[last].argmax())
        best.append(last)
    assert call(served, [0], {0: 0.0}).tolist() == [best]


def test_prompts_that_are_being_read_and_dry_runs_ask_no_drafter() -> None:
    served = speculator(Failing, {0: [1, 2]})
    assert call(served, [0], {}, sampled=[0]).tolist() == [[2] * GAMMA]
    assert call(served, [0], {}, dummy_run=True).shape == (1, GAMMA)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    names = ("vllm", "vllm.v1", "vllm.v1.worker", "vllm.v1.worker.gpu")
    inner = ("vllm.v1.worker.gpu.spec_decode", "vllm.v1.worker.gpu.model_runner")
    modules = {name: ModuleType(name) for name in (*names, *inner)}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    gpu: Any = modules["vllm.v1.worker.gpu"]
    gpu.spec_decode, gpu.model_runner = (modules[name] for name in inner)
    gpu.spec_decode.init_speculator = gpu.model_runner.init_speculator = lambda *_: "vLLM's own"
    return gpu


def test_the_second_runner_takes_custom_classes_once_it_is_asked_for(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(method: str) -> Any:
        speculative = SimpleNamespace(method=method)
        return engine.model_runner.init_speculator(
            SimpleNamespace(speculative_config=speculative), torch.device("cpu"), None
        )

    monkeypatch.delenv(SECOND_RUNNER, raising=False)
    patch_second_runner()
    assert made("custom_class") == "vLLM's own"
    monkeypatch.setenv(SECOND_RUNNER, "1")
    patch_second_runner()
    assert made("ngram") == "vLLM's own"
    vars(sys.modules["vllm"]).update(__version__="0.33.0", __file__="/nowhere/__init__.py")
    with pytest.raises(ConfigError, match=r"vllm 0.33.0"):  # it is Outrider's own
        made("custom_class")
