"""The native library gives the logits and states of transformers, for all models and drafts."""

import copy
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from outrider import Draft, Verdict
from outrider.extras.cpu import native_pass
from outrider.targets.passes.engine import run_pass, use_engine
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.transformers import TransformersTarget

SIZES: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 48, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 600,
}  # fmt: skip
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


def make(kind: str) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = AutoModelForCausalLM.from_config(CONFIGS[kind], dtype=torch.float32)
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def packed(plain: Any) -> Any:
    other = copy.deepcopy(plain)
    use_engine(other, "packed")
    return other


def assert_alike(models: tuple[Any, Any], caches: Any, inputs: PassInput, most: float) -> None:
    """Asserts that both models give a pass the same scores and states."""
    right, result = map(run_pass, models, caches, (inputs, inputs))
    torch.testing.assert_close(result.logits, right.logits, rtol=most, atol=most)
    for number, state in right.states.items():
        torch.testing.assert_close(result.states[number], state, rtol=most, atol=most)


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_chains_and_trees_score_as_in_transformers(kind: str) -> None:
    plain = make(kind)
    fast = packed(plain)
    assert native_pass.is_used_for(fast) and not native_pass.is_used_for(plain)
    caches = (GrowingCache(), GrowingCache())
    ids = torch.randint(0, 40, (1, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(1, 1, 3, 14)  # 11 tokens of the prompt and a round of two; three nodes
    mask[..., 11:] = torch.tensor(
        [[0.0, -torch.inf, -torch.inf], [0, 0, -torch.inf], [0, -torch.inf, 0]]
    )
    states = (0, 2, 3, -1)
    rounds = [
        PassInput(ids, 2, states=states),
        PassInput(ids[:, :2], 2, states=states),
        PassInput(ids[:, 3:6], 3, mask, torch.tensor([[11, 12, 12]]), states),
        PassInput(ids[:, :1], 1, states=states),
    ]
    for inputs in rounds:
        assert_alike((plain, fast), caches, inputs, 2e-4)
        if inputs.mask is not None:
            for cache in caches:
                cache.retain_rows(3, [0, 2])


def test_long_chains_score_as_in_transformers() -> None:
    plain = make("llama")
    models = (plain, packed(plain))
    for count in range(33, 560, 49):
        ids = torch.arange(count)[None] % 40
        caches = (GrowingCache(), GrowingCache())
        for part in (ids, torch.arange(35)[None]):  # the second goes on after the first
            rows = min(part.shape[1], count // 3)
            assert_alike(models, caches, PassInput(part, rows, states=(0, 2, 3)), 1e-3)
        assert caches[1].get_seq_length() == count + 35


@pytest.mark.parametrize("prompt", [40, 63, 64, 65, 90, 254, 300])
@pytest.mark.parametrize("parents", [(-1, 0, 1, 2, 3), (-1, 0, -1, 1, 3)])
def test_a_draft_behind_a_prompt_scores_as_token_by_token(prompt: int, parents: Any) -> None:
    target = TransformersTarget(packed(make("llama")))
    text, draft = (
        [token % 40 for token in range(prompt)],
        Draft((5, 6, 7, 8, 9), parents, (None,) * 5),
    )
    found = target.open(text).score(draft)
    for node in range(-1, 5):
        session = target.open(text)
        for step in draft.path(node):
            session.score(Draft())
            session.commit(Verdict((), draft.tokens[step]))
        assert torch.equal(found[node + 1], session.score(Draft())[0]), "bit by bit"


@pytest.mark.parametrize("texts", [1, 3])
def test_large_passes_with_masks_score_as_in_transformers(texts: int) -> None:
    plain = make("llama")
    fast, draw = packed(plain), torch.Generator().manual_seed(texts)
    caches = (GrowingCache(), GrowingCache())
    for count in range(1, 42, 4):
        mask = torch.zeros(texts, 1, count, caches[0].get_seq_length() + count)
        mask[..., -count:].masked_fill_(torch.rand(count, count, generator=draw) < 0.5, -1e30)
        ids = torch.randint(0, 40, (texts, count), generator=draw)
        positions = torch.randint(0, 99, (texts, count), generator=draw)
        inputs = PassInput(ids, (count + 1) // 2, mask, positions, (0, 2, 3))
        assert_alike((plain, fast), caches, inputs, 1e-3)
        for cache in caches:
            cache.crop(1 - count)  # the next tree stands on one token more
            assert cache.get_seq_length() == caches[0].get_seq_length()


def test_windows_and_other_kinds_are_left_to_transformers() -> None:
    windowed = AutoModelForCausalLM.from_config(MistralConfig(**SIZES, sliding_window=4))
    other = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES, hidden_act="gelu"))
    narrow = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES | {"head_dim": 8}))
    inputs = PassInput(torch.tensor([[1, 2, 3, 4, 5, 6]]), 2)
    for model in (windowed, other, narrow):
        right = run_pass(model.eval(), GrowingCache(), inputs).logits
        use_engine(model, "packed")
        assert not native_pass.is_used_for(model)
        logits = run_pass(model, GrowingCache(), inputs).logits
        torch.testing.assert_close(logits, right, rtol=1e-4, atol=1e-4)
