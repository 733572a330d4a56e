"""A layer has the sizes of any family, and positions that are scaled as in transformers."""

from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from outrider.drafters.parts.networks.layer import (
    LayerConfig,
)
from outrider.drafters.parts.networks.rotary import rotation
from outrider.drafters.parts.networks.speculators import layer_sizes


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
