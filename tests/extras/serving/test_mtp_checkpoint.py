"""A layer that was trained here is read with its target by transformers, and by its own drafter."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny.models import build, entries
from transformers.modeling_layers import MtpModel

from outrider import ConfigError
from outrider.drafters.mtp.network import MtpNetwork
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.serving.mtp_checkpoint import write_stitched
from outrider.targets.transformers import TransformersTarget

ENTRIES = {entry.name: entry for entry in entries()}
KINDS = {"deepseek_v3": "model.layers.4.", "glm4_moe": "model.layers.4.", "qwen3_5_text": "mtp."}


def made(kind: str, folder: Path) -> tuple[TransformersTarget, MtpNetwork]:
    """Writes a target's checkpoint; returns it, and a layer for it with random weights."""
    model = build(ENTRIES[kind])
    model.save_pretrained(folder)
    target = TransformersTarget(type(model).from_pretrained(folder))
    size = target.vocab_size
    network = MtpNetwork.untrained(target, Vocabulary(size), seed=3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return target, network


@torch.no_grad()
def logits_of(network: MtpNetwork, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    positions = torch.arange(tokens.shape[1])[None]
    rows: torch.Tensor = network.logits(network(states, tokens, positions, None, KeysAndValues()))
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_stitched_layer_gives_the_logits_of_the_trained_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, network = made(kind, tmp_path / "target")
    write_stitched(network, target, tmp_path / "stitched")
    files = json.loads((tmp_path / "stitched" / "model.safetensors.index.json").read_text())
    added = {name for name, file in files["weight_map"].items() if file == "mtp.safetensors"}
    assert added and all(name.startswith(KINDS[kind]) for name in added)
    model = type(target.model).from_pretrained(tmp_path / "stitched").eval()
    for name, tensor in target.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
    again = MtpNetwork.load(None, TransformersTarget(model))
    states, tokens = torch.randn(1, 6, 32), torch.randint(4, 60, (1, 6))
    right = logits_of(network, states, tokens)
    torch.testing.assert_close(logits_of(again, states, tokens), right, rtol=1e-5, atol=1e-5)
    if kind == "qwen3_5_text":  # transformers has no multi-token prediction of this kind
        return
    assert model.config.num_mtp_layers == 1
    own = [r"model\.layers\.4\..*"]  # the published ones have 61 layers
    monkeypatch.setattr(model, "_keys_to_ignore_on_load_unexpected", own)
    theirs = MtpModel.from_pretrained(model).eval()
    positions = torch.arange(6)[None]
    with torch.no_grad():
        after = theirs.forward_layer(0, states, positions, None, input_ids=tokens)
        found = theirs._project_to_logits(after)
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)


def test_a_layer_takes_the_place_of_the_targets_own(tmp_path: Path) -> None:
    target, network = made("glm4_moe", tmp_path)
    rest = load_file(tmp_path / "model.safetensors")
    own = {"model.layers.4.eh_proj.weight": torch.ones(3), "model.layers.4.old": torch.ones(3)}
    save_file(rest | own, tmp_path / "model.safetensors")
    (tmp_path / "merges.txt").write_text("a b")
    folder = tmp_path / "stitched"
    write_stitched(network, target, folder)
    assert load_file(folder / "target.safetensors").keys() == rest.keys()
    assert load_file(folder / "mtp.safetensors")["model.layers.4.eh_proj.weight"].shape == (32, 64)
    assert (folder / "merges.txt").read_text() == "a b"
    config = json.loads((folder / "config.json").read_text())
    assert config["num_nextn_predict_layers"] == 1


def test_targets_whose_layers_no_engine_reads(llama: Any, tmp_path: Path) -> None:
    model = llama()
    model.save_pretrained(tmp_path)
    target = TransformersTarget(type(model).from_pretrained(tmp_path))
    network = MtpNetwork.untrained(target, Vocabulary(target.vocab_size), seed=3)
    line = "engines have no layer for multi-token prediction of llama: expected deepseek_v3, glm4"
    with pytest.raises(ConfigError, match=line):
        write_stitched(network, target, tmp_path / "stitched")
    assert not (tmp_path / "stitched").exists()
