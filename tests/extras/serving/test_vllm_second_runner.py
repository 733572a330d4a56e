"""The speculator as vLLM's second runner calls it: tokens, distributions, seeds, other methods."""

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
from outrider.extras.serving.vllm_patch import SECOND_RUNNER, patch_second_runner
from outrider.extras.serving.vllm_second_runner import LEAST, OutriderSpeculator

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


def test_a_drafter_that_fails_leaves_its_request_without_drafts() -> None:
    served = speculator(Failing, {0: [1, 2]})
    for _ in range(2):
        assert call(served, [0], {0: 1.0}).tolist() == [[2] * GAMMA]


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
    sys.modules["vllm"].__version__ = "0.33.0"  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"vllm 0.33.0"):  # it is Outrider's own
        made("custom_class")
