"""Shapes of models, from their config.json."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from tiny.models import build, entries
from transformers import AutoConfig, AutoModelForCausalLM

from outrider import ConfigError
from outrider.extras.theory.shapes import read_shape, shape_of

LLAMA: dict[str, Any] = json.loads((Path(__file__).parent / "config.json").read_text())
"""Llama 3.1 8B, which has 8,030,261,248 weights."""

QWEN: dict[str, Any] = json.loads((Path(__file__).parent / "qwen3_30b_a3b.json").read_text())
"""Qwen3-30B-A3B, a mixture."""


def test_a_shape_has_the_weights_of_the_model(folder: Path) -> None:
    """All matrices, but for the table of the input, of which a pass reads a row."""
    shape = read_shape(str(folder))
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    counted = sum(
        weight.numel()
        for name, weight in model.named_parameters()
        if weight.dim() == 2 and "embed" not in name
    )
    table = 0 if not model.config.tie_word_embeddings else shape.table_weights
    assert shape.layers * shape.layer_weights + shape.table_weights == counted + table


def test_a_published_model_has_its_published_size() -> None:
    shape = shape_of(LLAMA, "it")
    norms = (2 * 32 + 1) * 4096
    assert 32 * shape.layer_weights + 2 * shape.table_weights + norms == 8_030_261_248
    assert (shape.bits, shape.dtype, shape.head_size) == (16, "bfloat16", 128)


def test_a_mixture_has_its_published_weights_in_all_and_for_a_token() -> None:
    """Qwen3-30B-A3B: 30.5 billion, of which a token takes 3.3, with both tables."""
    shape = shape_of(QWEN, "it")
    everything = shape.read_weights(10_000) + 2 * shape.table_weights
    assert everything == pytest.approx(30.53e9, rel=1e-3)
    assert shape.used_weights + 2 * shape.table_weights == pytest.approx(3.35e9, rel=1e-2)
    assert shape.read_weights(1) == pytest.approx(shape.used_weights)


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_tokens_touch_the_experts_that_chance_gives_them(tokens: int) -> None:
    """Every choice of two of five experts by each token, counted."""
    shape = shape_of({**QWEN, "num_experts": 5, "num_experts_per_tok": 2}, "it")
    choices = list(itertools.combinations(range(5), 2))
    unions = [set().union(*each) for each in itertools.product(choices, repeat=tokens)]
    mean = sum(map(len, unions)) / len(unions)
    assert shape.touched(tokens) == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize(
    ("model_type", "entry"),
    [("qwen2_moe", "qwen2_moe"), ("mixtral", "mixtral"), ("qwen3_moe", "qwen3_moe")],
)
def test_the_experts_of_a_config_are_those_of_its_model(model_type: str, entry: str) -> None:
    model = build(next(it for it in entries() if it.name == entry))
    shape = shape_of({**model.config.to_dict(), "dtype": "float32"}, model_type)
    counted = sum(
        weight.numel()
        for name, weight in model.model.layers.named_parameters()
        if weight.dim() >= 2 and "shared_expert_gate" not in name
    )
    assert shape.read_weights(10_000) == pytest.approx(counted)


@pytest.mark.parametrize(
    ("stored", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4.125),
        ({"quant_method": "awq", "bits": 4, "group_size": 32}, 4.5),
        ({"quant_method": "fp8"}, 8),
        ({"load_in_4bit": True}, 4.5),
        ({"load_in_8bit": True}, 8),
        ({}, 16),
    ],
)
def test_quantized_weights_have_their_bits(stored: dict[str, Any], bits: float) -> None:
    assert shape_of({**LLAMA, "quantization_config": stored}, "it").bits == bits
    assert shape_of({**LLAMA, "quantization_config": stored}, "it", bits=3).bits == 3


def test_gpt2_has_other_names_and_two_matrices() -> None:
    config = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257}
    shape = shape_of(config, "gpt2")
    assert (shape.layers, shape.matrices, shape.intermediate, shape.key_heads) == (12, 2, 3072, 12)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({**LLAMA, "kv_lora_rank": 8}, "all layers alike, its config has kv_lora_rank"),
        ({"vocab_size": 5}, "all layers alike, its config has no num_hidden_layers"),
    ],
)
def test_other_models_are_refused(config: dict[str, Any], line: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=f"^model=.*{line}$"):
        read_shape(str(tmp_path))


def test_a_missing_config_is_one_line(tmp_path: Path) -> None:
    for model in (tmp_path, tmp_path / "other.json", "no/such-model"):
        with pytest.raises(ConfigError, match=r"^model='.*': expected a config.json"):
            read_shape(str(model))
