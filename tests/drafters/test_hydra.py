"""Hydra: conformance, the published files, and heads that read the tokens drafted before them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.checkpoints import change
from tiny.drafters import bound
from tiny.parts import held
from torch.nn.functional import linear, silu

from outrider import ConfigError, Sampling
from outrider.drafters.hydra import Hydra, HydraNetwork
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after, write_draft

CONFIG = {"hydra_num_heads": 3, "hydra_num_layers": 2, "hydra_head_arch": "mlp"}
CONFIG |= {"grounded_heads": True, "hidden_size": 16, "vocab_size": 31}


@pytest.fixture
def published(llama: Any, tmp_path: Path) -> Any:
    """Three heads of two blocks in the published layout."""
    generator = torch.Generator().manual_seed(2)
    tensors = {}

    def add(name: str, *shape: int) -> None:
        tensors[f"{name}.weight"] = torch.randn(*shape, generator=generator) / 4
        tensors[f"{name}.bias"] = torch.randn(shape[0], generator=generator)

    for head in range(3):
        add(f"hydra_mlp.{head}.0.linear", 16, 16 * (head + 2))
        add(f"hydra_mlp.{head}.0.res_connection", 16, 16 * (head + 2))
        add(f"hydra_mlp.{head}.1.linear", 16, 16)
        add(f"hydra_lm_head.{head}", 31, 16)
    torch.save(tensors, tmp_path / "hydra_lm_head.pt")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return TransformersTarget(llama()), tmp_path, tensors


def test_the_heads_are_those_of_the_published_weights(published: Any, tmp_path: Path) -> None:
    target, folder, tensors = published

    def part(name: str, x: torch.Tensor) -> torch.Tensor:
        return linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    drafter, text = Hydra(str(folder)), [3, 9, 4]
    drafter.bind(target)
    context = context_after(drafter, target, text)
    draft = write_draft(drafter, target, context, gamma=5, sampling=Sampling(temperature=1.0))
    assert len(draft) == 3
    words = target.model.get_input_embeddings().weight
    inputs = [context.features["hidden_states"][1], words[4]]
    for head, (token, probs) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        x = torch.cat(inputs)
        x = part(f"hydra_mlp.{head}.0.res_connection", x) + silu(
            part(f"hydra_mlp.{head}.0.linear", x)
        )
        x = x + silu(part(f"hydra_mlp.{head}.1.linear", x))
        right = part(f"hydra_lm_head.{head}", x).double().softmax(-1)
        torch.testing.assert_close(probs, right, rtol=1e-4, atol=1e-5)
        inputs.append(words[token])
    again = tmp_path / "again"
    held(drafter, HydraNetwork).save_checkpoint(again, target)
    saved = HydraNetwork.read_checkpoint(again, target).state_dict()
    for name, tensor in tensors.items():
        torch.testing.assert_close(saved[name], tensor.half().float())


def test_untrained_heads_repeat_the_targets(llama: Any) -> None:
    target = TransformersTarget(llama())
    drafter = bound(Hydra("untrained"), target)
    context = context_after(drafter, target, [3, 9, 4])
    draft = write_draft(drafter, target, context, gamma=2, sampling=Sampling(temperature=1.0))
    own = target.model.lm_head(context.features["hidden_states"][1]).double().softmax(-1).detach()
    for probs in draft.probs:
        torch.testing.assert_close(probs, own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("entries", "line"),
    [
        ({"hydra_head_arch": "prefix-mlp"}, "hydra_head_arch='prefix-mlp': expected 'mlp'"),
        ({"grounded_heads": False}, "grounded_heads=False: expected True"),
        ({"hidden_state_offset": 1}, "hidden_state_offset=1: expected 0"),
        ({"hydra_num_heads": 0}, "expected hydra_num_heads and hydra_num_layers of at least 1"),
        ({"hidden_size": 8}, "its hidden_size is 8, the target's 16"),
        ({"hydra_num_heads": 4}, r"tensor hydra_mlp\.3\.0\.linear\.weight is missing"),
    ],
)
def test_other_heads_are_refused(entries: dict[str, Any], line: str, published: Any) -> None:
    target, folder, _ = published
    change(folder, entries)
    with pytest.raises(ConfigError, match=line):
        Hydra(str(folder)).bind(target)
