"""DFlash: conformance, the published layers, and the layouts of z-lab and of speculators."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import MuseGlimmerAssistantConfig, MuseGlimmerAssistantModel, Qwen3Config

from outrider import ConfigError, Sampling, decode
from outrider.drafter_parts.checkpoint import find_tensors
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.drafters.dflash import DFlash, DFlashNetwork
from outrider.targets.transformers import TransformersTarget
from outrider.testing import parametrize_with_checks
from outrider.testing.stage import context_after, play_draft
from outrider.verifiers.token import Token

SHAPES = ((2, None), (4, None), (4, "2x1x2"), (3, "top:2x2"), (4, "dynamic:3"))
SAMPLED = Sampling(temperature=1.0)
TEXT = [3, 7, 7, 2, 9, 4, 11, 5, 6]
MASK, BLOCK = 12, 5
DECODER = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "rms_norm_eps": 1e-5,
}


@parametrize_with_checks(
    [partial(DFlash, "untrained", block=block, tree=tree) for block, tree in SHAPES]
)
def test_conformance(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


def oracle() -> Any:
    """Returns a DFlash model of transformers' own, with full attention."""
    config = MuseGlimmerAssistantConfig(
        **DECODER,
        layer_types=["full_attention"] * 2,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        target_layer_ids=[0, 3],
        block_size=BLOCK,
        mask_token_id=MASK,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = MuseGlimmerAssistantModel(config).eval()
        for name, tensor in model.named_parameters():
            torch.nn.init.uniform_(tensor) if "norm" in name else torch.nn.init.normal_(tensor, std=0.3)
    return model


@torch.no_grad()
def expected(model: Any, target: Any, text: list[int]) -> Any:
    """Returns the oracle's distributions behind a text, from a pass over all of it."""
    known = torch.tensor([text[:-1]])
    states = target.model(known, output_hidden_states=True).hidden_states
    block = torch.tensor([[text[-1], *[MASK] * (BLOCK - 1)]])
    out = model(
        noise_embeds=target.model.get_input_embeddings()(block),
        context_hidden_states=torch.cat([states[layer + 1] for layer in (0, 3)], dim=-1),
        position_ids=torch.arange(len(text) + BLOCK - 1)[None],
        attention_mask={"full_attention": None, "sliding_attention": None},
    )
    return target.model.get_output_embeddings()(out.last_hidden_state[0, 1:])
