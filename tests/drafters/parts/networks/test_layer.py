"""The layer computes what Llama's does, with and without a cache, and with any mask."""

from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from outrider.drafters.parts.networks.layer import (
    Attention,
    FeedForward,
    KeysAndValues,
    LayerConfig,
    RMSNorm,
)
from outrider.drafters.parts.networks.rotary import rotation
from outrider.drafters.parts.networks.speculators import layer_sizes


@pytest.fixture
def parts(llama: Any) -> Any:
    """Returns a Llama model, one of its layers in float64, and our layer with the same weights."""
    model = llama(rope_theta=500.0).double()
    reference: LlamaDecoderLayer = model.model.layers[1]
    config = LayerConfig.like(model.config)
    attention, forward = Attention(config).double(), FeedForward(config).double()
    attention.load_state_dict(reference.self_attn.state_dict())
    forward.load_state_dict(reference.mlp.state_dict())
    norms = []
    for norm in (reference.input_layernorm, reference.post_attention_layernorm):
        own = RMSNorm(config.hidden_size, config.rms_norm_eps).double()
        own.load_state_dict(norm.state_dict())
        norms.append(own)

    def layer(x: Any, positions: Any, reach: Any, cache: KeysAndValues) -> Any:
        x = x + attention(norms[0](x), positions, reach, cache)
        return x + forward(norms[1](x))

    return model, reference, layer


def test_the_layer_equals_llamas(parts: Any) -> None:
    model, reference, layer = parts
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    positions = torch.arange(7).expand(2, -1)
    turn = LlamaRotaryEmbedding(model.config)(x, positions)
    mask = torch.full((7, 7), float("-inf"), dtype=torch.float64).triu(1)[None, None]
    right = reference(x, attention_mask=mask, position_embeddings=turn)
    out = layer(x, positions, None, KeysAndValues())
    torch.testing.assert_close(out, right, rtol=1e-5, atol=1e-5)


def test_the_cache_changes_nothing_and_can_be_cut_back(parts: Any) -> None:
    *_, layer = parts
    x = torch.randn(1, 9, 16, dtype=torch.float64)
    positions = torch.arange(9)[None]
    whole = layer(x, positions, None, KeysAndValues())
    cache = KeysAndValues()
    layer(x[:, :4], positions[:, :4], None, cache)
    layer(torch.randn(1, 2, 16, dtype=torch.float64), positions[:, 4:6], None, cache)
    cache.crop(4)
    assert len(cache) == 4
    rest = layer(x[:, 4:], positions[:, 4:], None, cache)
    torch.testing.assert_close(rest, whole[:, 4:], rtol=1e-6, atol=1e-6)


def test_siblings_do_not_attend_to_each_other(parts: Any) -> None:
    *_, layer = parts
    x = torch.randn(1, 4, 16, dtype=torch.float64)
    cache = KeysAndValues()
    layer(x[:, :2], torch.arange(2)[None], None, cache)
    reach = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)[None, None]
    both = layer(x[:, 2:], torch.tensor([[2, 2]]), reach, cache)
    for row in (0, 1):
        cache.crop(2)
        alone = layer(x[:, 2 + row : 3 + row], torch.tensor([[2]]), None, cache)
        torch.testing.assert_close(both[:, row : row + 1], alone)


def test_sizes_of_a_family_with_other_names() -> None:
    config = GPT2LMHeadModel(GPT2Config(vocab_size=31, n_embd=16, n_layer=1, n_head=2)).config
    sizes = LayerConfig.like(config)
    assert (sizes.hidden_size, sizes.num_attention_heads, sizes.head_dim) == (16, 2, 8)
    assert (sizes.intermediate_size, sizes.num_key_value_heads) == (64, 2)


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ],
)
def test_scaled_positions_are_those_of_transformers(scaling: Any) -> None:
    parameters = scaling | {"rope_theta": 500.0}
    config = LlamaConfig(
        hidden_size=32, num_attention_heads=2, head_dim=16, rope_parameters=parameters
    )
    positions = torch.tensor([[0, 1, 7, 300]])
    right = LlamaRotaryEmbedding(config)(torch.ones(1), positions)
    own = rotation(positions, 16, 500.0, scaling=layer_sizes(config).scaling)
    for part, exact in zip(own, right, strict=True):
        torch.testing.assert_close(part[:, 0], exact, rtol=1e-5, atol=1e-4)
    assert not torch.allclose(own[0], rotation(positions, 16, 500.0)[0])
