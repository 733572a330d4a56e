"""A target shows what it can do before it is used, and what it can't do is refused in a line."""

import copy
import re
from typing import Any

import pytest
import torch
from tiny.drafters import tokens_of
from torch import nn
from transformers import (
    BertConfig,
    BertLMHeadModel,
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    Llama4ForCausalLM,
    Llama4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MptConfig,
    MptForCausalLM,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    Phi3Config,
    Phi3ForCausalLM,
    RobertaConfig,
    RobertaForCausalLM,
)

from outrider import Chance, ConfigError, Sampling, TargetError, decode
from outrider.contract.chance import SampledChance
from outrider.decoding.batches.batched import batched
from outrider.decoding.decode import decode_together
from outrider.drafters.ngram import NGram
from outrider.drafters.prompt_lookup import PromptLookup
from outrider.targets.passes.forward import cache_argument
from outrider.targets.self_test import SelfTest, self_test
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.recursive import Candidates
from outrider.verifiers.token import Token

VOCABULARY = 40
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "eos_token_id": None,
    "pad_token_id": 0, "max_position_embeddings": 96,
}  # fmt: skip
BERT: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
PROMPTS = [[5, 9, 7, 20, 31, 6, 2, 11, 9, 7, 20, 5, 8], [3, 12, 4]]


def lively(model: Any, deviation: float = 0.4) -> Any:
    """Returns a model whose every layer and token matters."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, deviation)
    return model.eval()


def mistral(**options: Any) -> Any:
    return lively(MistralForCausalLM(MistralConfig(**SIZES | {"sliding_window": 6} | options)))


def gemma2(**options: Any) -> Any:
    return lively(Gemma2ForCausalLM(Gemma2Config(**SIZES | {"sliding_window": 6} | options)))


def llama4(*, tuned: bool = False) -> Any:
    sizes = SIZES | {"intermediate_size_mlp": 48, "num_local_experts": 2}
    sizes |= {"attn_temperature_tuning": tuned}
    config = Llama4TextConfig(**sizes, attention_chunk_size=6, no_rope_layers=[1, 0, 1, 0])
    return lively(Llama4ForCausalLM(config), 0.2)


def llama() -> Any:
    return lively(LlamaForCausalLM(LlamaConfig(**SIZES)))


def greedy(model: Any, prompt: list[int], count: int = 30) -> list[int]:
    """Returns the text that transformers itself writes."""
    ids = torch.tensor([prompt])
    mask = torch.ones_like(ids)
    rows = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=count)
    text: list[int] = rows[0, len(prompt) :].tolist()
    return text


@pytest.mark.parametrize("make", [mistral, gemma2, llama4])
def test_windows_and_chunks_are_kept_in_trees_and_batches(make: Any) -> None:
    model = make()
    target = TransformersTarget(model)
    assert target.trees
    texts = [greedy(model, prompt) for prompt in PROMPTS]
    options: dict[str, Any] = {"gamma": 3, "budget": 9, "max_new_tokens": 30}
    for prompt, text in zip(PROMPTS, texts, strict=True):
        rounds = decode(target, NGram(tree="top:2x2"), Candidates(), prompt, **options)
        assert tokens_of(rounds) == text
    together: list[list[int]] = [[], []]
    for number, round in decode_together(target, PromptLookup(), Token(), PROMPTS, **options):
        together[number] += round.tokens
    assert together == texts
    chances: list[Chance] = [SampledChance.seeded(0) for _ in PROMPTS]
    assert batched(target).write(PROMPTS, Sampling(), chances, 30) == texts


def test_a_long_window_is_tested_too_and_left_unchanged() -> None:
    model = mistral(sliding_window=4096)
    result = self_test(model)
    assert not (result.trees or result.batches or result.sources)
    assert model.config.sliding_window == model.model.config.sliding_window == 4096


def refused(result: SelfTest) -> dict[str, str]:
    """Returns the properties that do not hold, with the reasons."""
    return {name: reason for name, reason in result.properties().items() if reason}


def test_every_property_has_a_row() -> None:
    names = [*self_test(llama()).properties()]
    assert len(names) == 7
    windowed = self_test(mistral())
    assert windowed.window == 6
    more = windowed.properties().keys() - set(names)
    assert more == {"also past a window (of 6 tokens in the test)"}
    assert not refused(windowed)


class FixedDepth(LlamaForCausalLM):
    """Has layers of its own, and runs those of another model."""

    def forward(self, *args: Any, **options: Any) -> Any:
        return self.__dict__["whole"](*args, **options)


def test_fewer_layers_are_fewer_or_refused() -> None:
    model = lively(FixedDepth(LlamaConfig(**SIZES)))
    model.__dict__["whole"] = llama()
    reason = "it can't be cut after its first layers"
    assert refused(self_test(model)) == {"the first layers work as a model": reason}
    single = lively(LlamaForCausalLM(LlamaConfig(**SIZES | {"num_hidden_layers": 1})))
    assert refused(self_test(single)) == {
        "the first layers work as a model": "it has a single layer"
    }


class FixedWindow(MistralForCausalLM):
    """A window that its configuration does not show."""

    def forward(self, *args: Any, **options: Any) -> Any:
        self.model.config.sliding_window = 3
        try:
            return super().forward(*args, **options)
        finally:
            self.model.config.sliding_window = None


def test_a_window_that_no_mask_carries_takes_chains_only() -> None:
    config = MistralConfig(**SIZES, sliding_window=None)
    target = TransformersTarget(lively(FixedWindow(config)))
    assert not target.trees
    text = greedy(target.model, PROMPTS[0])
    rounds = decode(target, PromptLookup(), Token(), PROMPTS[0], max_new_tokens=30)
    assert tokens_of(rounds) == text


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
    model = lively(LlamaForCausalLM(LlamaConfig(**SIZES))).to(torch.bfloat16)
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
    model = lively(model_class(LlamaConfig(**SIZES)))
    with pytest.raises(TargetError, match=re.escape(f"model {model_class.__name__}")) as raised:
        TransformersTarget(model)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def openai_gpt() -> Any:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    return OpenAIGPTLMHeadModel(OpenAIGPTConfig(vocab_size=VOCABULARY, **sizes))


def both_ways() -> Any:
    return BertLMHeadModel(BertConfig(**BERT, is_decoder=False))


@pytest.mark.parametrize("make", [openai_gpt, both_ways])
def test_models_that_are_no_decoders_with_a_cache_are_refused(make: Any) -> None:
    with pytest.raises(TargetError, match=r"expected (a|one)"):
        TransformersTarget(lively(make()))


class NoMask(LlamaForCausalLM):
    def forward(self, *args: Any, **options: Any) -> Any:
        return super().forward(*args, **{**options, "attention_mask": None})


class NoPositions(LlamaForCausalLM):
    def forward(self, *args: Any, **options: Any) -> Any:
        return super().forward(*args, **{**options, "position_ids": None})


@pytest.mark.parametrize("model_class", [NoMask, NoPositions])
def test_masks_and_positions_that_are_ignored_leave_chains_one_by_one(model_class: Any) -> None:
    model = lively(model_class(LlamaConfig(**SIZES)))
    target = TransformersTarget(model)
    line = f"{model_class.__name__} takes only chains, since it reads a tree differently"
    with pytest.raises(ConfigError, match=line):
        list(decode(target, NGram(tree="top:2x2"), Candidates(), PROMPTS[0], max_new_tokens=5))
    texts = [greedy(model, prompt, 12) for prompt in PROMPTS]
    chances: list[Chance] = [SampledChance.seeded(0) for _ in PROMPTS]
    assert batched(target).write(PROMPTS, Sampling(), chances, 12) == texts
    together: list[list[int]] = [[], []]
    options: dict[str, Any] = {"max_new_tokens": 12}
    for number, round in decode_together(target, PromptLookup(), Token(), PROMPTS, **options):
        together[number] += round.tokens
    assert together == texts


def llama4_tuned() -> Any:
    return llama4(tuned=True)


def bloom() -> Any:
    return BloomForCausalLM(
        BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, eos_token_id=None)
    )


def mpt() -> Any:
    sizes = {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}
    return MptForCausalLM(MptConfig(vocab_size=VOCABULARY, **sizes))


def gpt_neo(window_size: int = 6) -> Any:
    sizes: dict[str, Any] = {"hidden_size": 32, "num_layers": 2, "num_heads": 4}
    kinds = {"attention_types": [[["global", "local"], 1]], "window_size": window_size}
    positions = {"max_position_embeddings": 96, "eos_token_id": None}
    return GPTNeoForCausalLM(GPTNeoConfig(vocab_size=VOCABULARY, **sizes | kinds | positions))


def long_window() -> Any:
    return gpt_neo(80)


def roberta() -> Any:
    return RobertaForCausalLM(RobertaConfig(**BERT, is_decoder=True, eos_token_id=None))


@pytest.mark.parametrize("make", [bloom, mpt, gpt_neo, long_window, llama4_tuned])
def test_positions_of_other_kinds_give_chains_and_right_texts(make: Any) -> None:
    model = lively(make())
    target = TransformersTarget(model)
    assert not target.trees
    texts = [greedy(model, prompt, 20) for prompt in PROMPTS]
    chances: list[Chance] = [SampledChance.seeded(0) for _ in PROMPTS]
    assert batched(target).write(PROMPTS, Sampling(), chances, 20) == texts


def test_positions_with_an_offset_take_chains_only() -> None:
    assert not TransformersTarget(lively(roberta())).trees


def test_absolute_positions_are_right() -> None:
    config = GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    result = self_test(lively(GPT2LMHeadModel(config)))
    assert not (result.trees or result.batches or result.sources)


def test_longrope_ends_at_its_original_window() -> None:
    rope: dict[str, Any] = {
        "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4,
        "long_factor": [2.0, 3.0, 4.0, 5.0], "original_max_position_embeddings": 24,
    }  # fmt: skip
    config = Phi3Config(
        **SIZES, rope_parameters=rope, original_max_position_embeddings=24, sliding_window=None
    )
    model = lively(Phi3ForCausalLM(config))
    target = TransformersTarget(model)
    assert target.max_length == 24
    text = greedy(model, PROMPTS[0])[: 24 - len(PROMPTS[0])]
    rounds = decode(target, PromptLookup(), Token(), PROMPTS[0], max_new_tokens=30)
    assert tokens_of(rounds) == text
    chances: list[Chance] = [SampledChance.seeded(0)]
    assert batched(target).write(PROMPTS[:1], Sampling(), chances, 30) == [text]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_no_reason_to_refuse(dtype: torch.dtype) -> None:
    for model in (llama(), gemma2()):
        result = self_test(model.to(dtype))
        assert not (result.trees or result.batches or result.sources)


def test_the_test_draws_nothing_and_runs_once() -> None:
    model = mistral()
    state = torch.get_rng_state()
    assert self_test(model) is self_test(model)
    assert torch.equal(state, torch.get_rng_state())
