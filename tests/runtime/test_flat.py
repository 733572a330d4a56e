"""The flat pass: transformers' own logits and states, for every kind it serves and every draft."""

import copy
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from outrider.runtime import flat
from outrider.runtime.cache import growing, retain_rows
from outrider.runtime.linear import pack
from outrider.runtime.step import run_pass

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 600,
}
CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "llama-biased": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "llama-tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama-one-group": LlamaConfig(**{**SIZES, "num_key_value_heads": 4}),
    "llama-stretched": LlamaConfig(
        **SIZES, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    ),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3": Qwen3Config(**SIZES),
}


def model(kind: str) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = AutoModelForCausalLM.from_config(CONFIGS[kind], dtype=torch.float32)
        for each in made.parameters():
            torch.nn.init.normal_(each, std=0.3)
    return made.eval()


def packed(plain: Any) -> Any:
    other = copy.deepcopy(plain)
    pack(other)
    return other


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_chains_and_trees_score_as_in_transformers(kind: str) -> None:
    plain = model(kind)
    fast = packed(plain)
    assert flat.serves(fast) and not flat.serves(plain)
    caches = {id(each): growing() for each in (plain, fast)}
    ids = torch.randint(0, 40, (1, 9), generator=torch.Generator().manual_seed(1))
    reach = torch.zeros(1, 1, 3, 14)  # the prompt and a round of two are there: 11, and three nodes
    reach[..., 11:] = torch.tensor(
        [[0.0, -torch.inf, -torch.inf], [0, 0, -torch.inf], [0, -torch.inf, 0]]
    )
    rounds: list[tuple[Any, dict[str, Any]]] = [
        (ids, {"rows": 2}),
        (ids[:, :2], {"rows": 2}),
        (ids[:, 3:6], {"rows": 3, "mask": reach, "positions": torch.tensor([[11, 12, 12]])}),
        (ids[:, :1], {"rows": 1}),
    ]
    for tokens, options in rounds:
        found = [
            run_pass(each, tokens, caches[id(each)], states=(0, 2, 3, -1), **options)
            for each in (plain, fast)
        ]
        torch.testing.assert_close(found[0].logits, found[1].logits, rtol=2e-4, atol=2e-4)
        for place, states in found[0].states.items():
            torch.testing.assert_close(states, found[1].states[place], rtol=2e-4, atol=2e-4)
        if "mask" in options:
            for cache in caches.values():
                retain_rows(cache, 3, [0, 2])


def test_long_chains_are_read_in_few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = model("llama")
    fast, sizes = packed(plain), set()
    known: Any = flat.product

    def product(layer: Any, x: torch.Tensor, *then: str) -> Any:
        if layer is not head:
            sizes.add(x.shape[1])
        return known(layer, x, *then)

    monkeypatch.setattr(flat, "product", product)
    head = fast.get_output_embeddings()
    for count in range(33, 560, 7):
        ids = torch.arange(count)[None] % 40
        cache, other = growing(), DynamicCache()
        for part in (ids, torch.arange(35)[None]):  # the second goes on after the first
            rows = min(part.shape[1], count // 3)
            found = run_pass(fast, part, cache, rows=rows, states=(0, 2, 3))
            right = plain(part, past_key_values=other, output_hidden_states=True)
            assert torch.allclose(found.logits, right.logits[:, -rows:], atol=1e-3)
            for place in (0, 2, 3):
                close = torch.allclose(found.states[place], right.hidden_states[place], atol=1e-3)
                assert close
        assert cache.get_seq_length() == count + 35
    assert {size for size in sizes if size > 32} == set(range(64, 257, 32))


def test_texts_side_by_side_score_as_alone() -> None:
    fast = packed(model("llama"))
    texts = [[4, 5, 6, 7], [9, 8]]
    alone = [run_pass(fast, torch.tensor([text]), growing(), rows=1).logits[0] for text in texts]
    mask = torch.zeros(2, 1, 4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -1e30)
    mask[1, :, :, :2] = -1e30
    ids = torch.tensor([texts[0], [0, 0, *texts[1]]])
    places = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 1]])
    both = run_pass(fast, ids, growing(), rows=1, mask=mask, positions=places).logits
    for row, right in zip(both, alone, strict=True):
        torch.testing.assert_close(row, right, rtol=1e-4, atol=1e-4)


def test_what_sees_a_window_or_is_another_kind_is_left_to_transformers(llama: Any) -> None:
    windowed = AutoModelForCausalLM.from_config(MistralConfig(**SIZES, sliding_window=4))
    other = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, hidden_act="gelu"))
    for each in (windowed, other):
        right = run_pass(each.eval(), torch.tensor([[1, 2, 3, 4, 5, 6]]), growing(), rows=2).logits
        pack(each)
        assert not flat.serves(each)
        found = run_pass(each, torch.tensor([[1, 2, 3, 4, 5, 6]]), growing(), rows=2).logits
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
