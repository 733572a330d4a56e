"""The cache rolls back exactly: whatever happened before, scores are those of the text itself."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
)

from outrider import TargetError
from outrider.targets.passes.cached_model import CachedModel, refuse_stateful, state_number

SMALL = {
    "vocab_size": 31, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "initializer_range": 0.4,
}  # fmt: skip


def gpt2(llama: Any) -> Any:
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=31, n_embd=16, n_layer=2, n_head=2, initializer_range=0.4)
    )


def mistral(llama: Any) -> Any:
    return MistralForCausalLM(MistralConfig(**SMALL, sliding_window=4))


def gemma(llama: Any) -> Any:
    return Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=8, sliding_window=4))


MODELS: list[Callable[[Any], Any]] = [lambda llama: llama(), gpt2, mistral, gemma]


# Gemma's norms compute in float32 whatever the model's precision, and round with the processor.
CLOSE = [1e-9, 1e-9, 1e-9, 1e-6]


@pytest.mark.parametrize(
    ("make", "close"),
    list(zip(MODELS, CLOSE, strict=True)),
    ids=["llama", "gpt2", "mistral", "gemma2"],
)
def test_scores_are_those_of_the_text_after_any_history(
    make: Any, close: float, llama: Any
) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make(llama).double().eval()
    cached = CachedModel(model, {"hidden_states", "hidden_states.0", "hidden_states.1"})
    draw = random.Random(1)
    text: list[int] = []
    for _ in range(12):
        new = [draw.randrange(31) for _ in range(draw.randrange(1, 6))]
        rows = draw.randrange(1, len(new) + 1)
        logits = cached.feed(new, rows)
        text += new
        with torch.no_grad():
            whole = model(torch.tensor([text]), output_hidden_states=True)
        torch.testing.assert_close(logits, whole.logits[0, -rows:], rtol=close, atol=close)
        assert len(cached.features) == 3
        for name, states in cached.features.items():
            right = whole.hidden_states[state_number(name)][0]
            torch.testing.assert_close(states, right, rtol=close, atol=close)
        drop = draw.randrange(len(new) + 1)
        cached.drop(drop)
        del text[len(text) - drop :]
        assert cached.length == len(text)


def test_the_chosen_rows_are_retained(llama: Any) -> None:
    model = llama().double()
    cached, plain = CachedModel(model), CachedModel(model)
    mask = torch.zeros(1, 1, 3, 5, dtype=torch.float64)
    mask[..., 0, 3:] = mask[..., 1, [2, 4]] = mask[..., 2, [2]] = float("-inf")
    cached.feed([1, 2], 1)
    # 7 and 8 are siblings; 9 continues 8.
    cached.feed([7, 8, 9], 1, mask=mask, positions=torch.tensor([[2, 2, 3]]))
    cached.retain_rows(3, [1, 2])
    plain.feed([1, 2, 8, 9], 1)
    torch.testing.assert_close(cached.feed([3], 1), plain.feed([3], 1), rtol=1e-9, atol=1e-9)


def test_states_of_an_unknown_kind_are_refused(llama: Any) -> None:
    model = llama()
    model.config.layer_types = ["compressed_sparse_attention"] * len(model.model.layers)
    with pytest.raises(TargetError, match="LlamaForCausalLM: layers of compressed_sparse_"):
        refuse_stateful(model)


def test_a_model_declared_stateful_is_refused(llama: Any) -> None:
    model = llama()
    model._is_stateful = True
    with pytest.raises(TargetError, match="LlamaForCausalLM: a recurrent state can't be rolled"):
        CachedModel(model)
