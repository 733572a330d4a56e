"""A target shows what it can do before it is used, and what it can't do is refused in a line."""

import copy
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny.models import ENTRIES, build
from tiny.subject import written
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from outrider import Chance, Sampling, TargetError
from outrider.contract.chance import SampledChance
from outrider.decoding.batches.batch_target import batched
from outrider.decoding.decode import decode_together
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.targets.passes.pass_input import cache_argument
from outrider.targets.self_test import SelfTest, self_test
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token

SIZES: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "eos_token_id": None,
    "pad_token_id": 0, "max_position_embeddings": 96,
}  # fmt: skip
PROMPTS = [[5, 9, 7, 20, 31, 6, 2, 11, 9, 7, 20, 5, 8], [3, 12, 4]]


def lively(model: Any) -> Any:
    """Returns a model whose every layer and token matters."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.4)
    return model.eval()


def mistral(sliding_window: int) -> Any:
    config = MistralConfig(**SIZES, sliding_window=sliding_window)
    return lively(MistralForCausalLM(config))


def llama(model_class: Any = LlamaForCausalLM, **options: Any) -> Any:
    return lively(model_class(LlamaConfig(**SIZES | options)))


def assert_written_alone(target: TransformersTarget, texts: list[list[int]]) -> None:
    chances: list[Chance] = [SampledChance.seeded(0) for _ in texts]
    assert batched(target).write(PROMPTS, Sampling(), chances, len(texts[0])) == texts


def refused(result: SelfTest) -> dict[str, str]:
    """Returns the properties that do not hold, with the reasons."""
    return {name: reason for name, reason in result.properties().items() if reason}


def test_a_long_window_is_tested_too_and_left_unchanged() -> None:
    model = mistral(4096)
    assert not refused(self_test(model))
    assert model.config.sliding_window == model.model.config.sliding_window == 4096


def test_every_property_has_a_row() -> None:
    names = [*self_test(llama()).properties()]
    assert len(names) == 6
    windowed = self_test(mistral(6))
    assert windowed.window == 6
    more = windowed.properties().keys() - set(names)
    assert more == {"also past a window (of 6 tokens in the test)"}
    assert not refused(windowed)


class FixedDepth(LlamaForCausalLM):
    """Has layers of its own, and runs those of another model."""

    def forward(self, *args: Any, **options: Any) -> Any:
        return self.__dict__["whole"](*args, **options)


def test_fewer_layers_are_fewer_or_refused() -> None:
    model = llama(FixedDepth)
    model.__dict__["whole"] = llama()
    for tested, reason in (
        (model, "it can't be cut after its first layers"),
        (llama(num_hidden_layers=1), "it has a single layer"),
    ):
        assert refused(self_test(tested)) == {"the first layers work as a model": reason}


class FixedWindow(MistralForCausalLM):
    """A window that its configuration does not show."""

    def forward(self, *args: Any, **options: Any) -> Any:
        self.model.config.sliding_window = 3
        try:
            return super().forward(*args, **options)
        finally:
            self.model.config.sliding_window = None


CACHE = cache_argument(LlamaForCausalLM.forward)


class NoCache(LlamaForCausalLM):
    """Reads each pass as if it were the whole text."""

    def forward(self, *args: Any, **options: Any) -> Any:
        del options[CACHE]
        return super().forward(*args, **options)


class OwnState(LlamaForCausalLM):
    """Says something else in each pass."""

    passes = 0

    def forward(self, *args: Any, **options: Any) -> Any:
        output = super().forward(*args, **options)
        self.passes += 1
        output.logits = output.logits.roll(self.passes, -1)
        return output


class Broken(LlamaForCausalLM):
    """Raises once there is something in the cache."""

    def forward(self, *args: Any, **options: Any) -> Any:
        if options[CACHE].get_seq_length():
            raise RuntimeError("sizes\ndon't fit")
        return super().forward(*args, **options)


class OneScale(nn.Module):
    """Rounds all activations of a pass to eight bits by one scale, as dynamic FP8 does."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, inputs: torch.Tensor) -> Any:
        scale = inputs.abs().max() / torch.finfo(torch.float8_e4m3fn).max
        return self.linear((inputs / scale).to(torch.float8_e4m3fn).to(inputs.dtype) * scale)


def test_activations_with_one_scale_for_a_pass_are_refused() -> None:
    """A drafted token would change what is rounded away from the tokens before it."""
    model = llama().to(torch.bfloat16)
    TransformersTarget(copy.deepcopy(model))
    for layer in model.model.layers:
        layer.mlp.down_proj = OneScale(layer.mlp.down_proj)
    with pytest.raises(TargetError, match="its logits depend on later tokens of the same pass"):
        TransformersTarget(model)


class Silent(LlamaForCausalLM):
    """Gives no numbers."""

    def forward(self, *args: Any, **options: Any) -> Any:
        output = super().forward(*args, **options)
        output.logits = output.logits * float("nan")
        return output


@pytest.mark.parametrize(
    ("model_class", "reason"),
    [
        (Silent, "model Silent gave logits with NaN"),
        (NoCache, "does not use the cache that it is given"),
        (OwnState, "its logits depend on how a text is split into passes"),
        (Broken, "can't be read in parts: RuntimeError: sizes don't fit"),
    ],
)
def test_a_text_that_drafts_could_change_is_refused(model_class: Any, reason: str) -> None:
    with pytest.raises(TargetError, match=re.escape(f"model {model_class.__name__}")) as raised:
        TransformersTarget(llama(model_class))
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


class NoMask(LlamaForCausalLM):
    def forward(self, *args: Any, **options: Any) -> Any:
        return super().forward(*args, **{**options, "attention_mask": None})


class NoPositions(LlamaForCausalLM):
    def forward(self, *args: Any, **options: Any) -> Any:
        return super().forward(*args, **{**options, "position_ids": None})


def fixed_window() -> Any:
    return lively(FixedWindow(MistralConfig(**SIZES, sliding_window=None)))


def long_window() -> Any:
    return build(replace(ENTRIES["gpt_neo"], settings={"window_size": 80}))


def llama4_tuned() -> Any:
    return build(replace(ENTRIES["llama4_text"], settings={"attn_temperature_tuning": True}))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: llama(NoMask), "it reads a tree differently"),
        (lambda: llama(NoPositions), "it reads a tree differently"),
        (fixed_window, "it reads a tree differently"),
        (long_window, "no mask reaches its window"),
        (llama4_tuned, "its attention's temperature"),
    ],
)
def test_positions_and_windows_that_no_mask_carries_leave_chains_one_by_one(
    make: Any, reason: str
) -> None:
    target = TransformersTarget(make())
    assert f"{type(target.model).__name__} takes only chains, since {reason}" in target.no_trees
    texts = [written(target.model, prompt, max_new_tokens=20) for prompt in PROMPTS]
    together: list[list[int]] = [[], []]
    options: dict[str, Any] = {"max_new_tokens": 20}
    for number, round in decode_together(target, PromptLookup(), Token(), PROMPTS, **options):
        together[number] += round.tokens
    assert together == texts
    assert_written_alone(target, texts)


@pytest.mark.parametrize("name", ["bloom", "mpt", "gpt_neo", "roberta"])
def test_positions_of_other_kinds_take_chains_only(name: str) -> None:
    assert self_test(build(ENTRIES[name])).trees


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_no_reason_to_refuse(dtype: torch.dtype) -> None:
    for name in ("llama", "gemma2", "gpt2"):
        assert not refused(self_test(build(ENTRIES[name]).to(dtype)))


def test_the_test_draws_nothing_and_runs_once() -> None:
    model = mistral(6)
    state = torch.get_rng_state()
    assert self_test(model) is self_test(model)
    assert torch.equal(state, torch.get_rng_state())
