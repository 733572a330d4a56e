"""MTP: conformance, the layouts of DeepSeek-V3, GLM-4.5 and Qwen3-Next, and what does not fit."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny.models import build, entries
from torch import Tensor, nn

from outrider import ConfigError, decode
from outrider.drafters.mtp.drafter import Mtp
from outrider.drafters.mtp.network import MtpNetwork
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token

ENTRIES = {entry.name: entry for entry in entries()}
FUSION = {
    "deepseek_v3": ("enorm", "hnorm", "eh_proj", "shared_head.norm", "model.layers.4."),
    "glm4_moe": ("enorm", "hnorm", "eh_proj", "shared_head.norm", "model.layers.4."),
    "qwen3_next": ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm", "mtp."),
}
"""The names of the two norms, the fusion and the last norm, and what all names begin with."""


def with_layer(name: str, folder: Path) -> tuple[Any, dict[str, nn.Module], nn.Module]:
    """Writes a model and the tensors of a random layer; returns it, its fusion and the layer."""
    model = build(ENTRIES[name])
    model.save_pretrained(folder)
    # The last layer of each is one of full attention with experts.
    layer = build(ENTRIES[name], seed=7).get_decoder().layers[-1]
    layer.self_attn.layer_idx = 0
    norm = partial(type(model.get_decoder().norm), 32, model.config.rms_norm_eps)
    parts = {part: norm() for part in ("words", "states", "end")}
    parts["fusion"] = nn.Linear(64, 32, bias=False)
    for part in parts.values():
        nn.init.normal_(part.weight, 0.9, 0.2)
    words, states, fusion, end, prefix = FUSION[name]
    tensors = {
        f"{words}.weight": parts["words"].weight,
        f"{states}.weight": parts["states"].weight,
        f"{fusion}.weight": parts["fusion"].weight,
        f"{end}.weight": parts["end"].weight,
    }
    inner = "layers.0." if prefix == "mtp." else ""
    tensors |= {inner + key: tensor for key, tensor in single_experts(layer).items()}
    if not inner:  # the published files have copies of these
        tensors["embed_tokens.weight"] = model.get_input_embeddings().weight
        tensors["shared_head.head.weight"] = model.get_output_embeddings().weight
    whole = {prefix + key: tensor.detach().clone() for key, tensor in tensors.items()}
    save_file(load_file(folder / "model.safetensors") | whole, folder / "model.safetensors")
    return type(model).from_pretrained(folder).eval(), parts, layer


def single_experts(layer: nn.Module) -> dict[str, Tensor]:
    """Returns a layer's tensors as they are published, with each expert's own."""
    tensors = dict(layer.state_dict())
    both, down = tensors.pop("mlp.experts.gate_up_proj"), tensors.pop("mlp.experts.down_proj")
    for number in range(len(both)):
        expert = f"mlp.experts.{number}."
        tensors[f"{expert}gate_proj.weight"] = both[number, : both.shape[1] // 2]
        tensors[f"{expert}up_proj.weight"] = both[number, both.shape[1] // 2 :]
        tensors[f"{expert}down_proj.weight"] = down[number]
    return tensors


@torch.no_grad()
@pytest.mark.parametrize("name", FUSION)
def test_the_layer_is_that_of_the_targets_checkpoint(name: str, tmp_path: Path) -> None:
    model, parts, layer = with_layer(name, tmp_path)
    target = TransformersTarget(model)
    network = MtpNetwork.load(None, target)
    states, tokens = torch.randn(1, 6, 32), torch.randint(0, 60, (1, 6))
    positions = torch.arange(6)[None]
    words = parts["words"](model.get_input_embeddings()(tokens))
    x = parts["fusion"](torch.cat([words, parts["states"](states)], dim=-1))
    right = parts["end"](
        layer(
            x,
            attention_mask=torch.full((1, 1, 6, 6), torch.finfo().min).triu(1),
            position_embeddings=model.get_decoder().rotary_emb(x, positions),
            position_ids=positions,
        )
    )
    after = network(states, tokens, positions, None, KeysAndValues())
    torch.testing.assert_close(after, right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.logits(after), model.lm_head(after))
    cache = KeysAndValues()
    parted = [
        network(states[:, a:b], tokens[:, a:b], positions[:, a:b], None, cache)
        for a, b in ((0, 3), (3, 4), (4, 6))
    ]
    torch.testing.assert_close(torch.cat(parted, dim=1), right, rtol=1e-4, atol=1e-5)
    rounds = list(decode(target, Mtp(), Token(), [3, 4, 5], gamma=3, max_new_tokens=9))
    assert rounds[0].drafted == 0 and rounds[1].drafted == 3


def test_a_written_network_is_read_again(tmp_path: Path) -> None:
    model, *_ = with_layer("glm4_moe", tmp_path)
    target = TransformersTarget(model)
    network = MtpNetwork.load(str(tmp_path), target)
    network.save_checkpoint(tmp_path / "own", target)
    again = MtpNetwork.load(str(tmp_path / "own"), target).state_dict()
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(again[name], tensor, rtol=1e-3, atol=1e-3)


def test_tensors_may_lie_in_several_files(tmp_path: Path) -> None:
    model, *_ = with_layer("deepseek_v3", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    first = {name: tensor for name, tensor in tensors.items() if "experts" in name}
    rest = {name: tensor for name, tensor in tensors.items() if name not in first}
    (tmp_path / "model.safetensors").unlink()
    files = {"one.safetensors": first, "two.safetensors": rest}
    for file, part in files.items():
        save_file(part, tmp_path / file)
    index = {"weight_map": {name: file for file, part in files.items() for name in part}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    target = TransformersTarget(model)
    Mtp().bind(target)
    del index["weight_map"]["model.layers.4.mlp.experts.1.up_proj.weight"]
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    line = r"tensor block\.mlp\.experts\.gate_up_proj is missing$"
    with pytest.raises(ConfigError, match=line):
        Mtp().bind(target)


def test_a_target_without_such_tensors(llama: Any, tmp_path: Path) -> None:
    model = llama()
    with pytest.raises(ConfigError, match=r"^drafter\.path=None: expected a folder, the target"):
        Mtp().bind(TransformersTarget(model))
    model.save_pretrained(tmp_path)
    line = r"expected tensors of multi-token prediction, named model\.layers\.\d+\.\* or mtp\.\*$"
    with pytest.raises(ConfigError, match=line):
        Mtp(str(tmp_path)).bind(TransformersTarget(model))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"with model\.safetensors or model\.safetensors\.index"):
        Mtp(str(tmp_path)).bind(TransformersTarget(model))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gpt2", "target: GPT2Model has no layers: expected a decoder"),
        ("gemma3_text", "target: Gemma3TextModel rotates positions by type of layer: expected one"),
    ],
)
def test_a_target_that_is_built_otherwise(name: str, line: str) -> None:
    target = TransformersTarget(build(ENTRIES[name]))
    with pytest.raises(ConfigError, match=f"^{line}"):
        Mtp("untrained").bind(target)


@pytest.mark.parametrize(
    "name", ["cohere", "cohere2", "starcoder2", "stablelm", "nemotron", "olmo", "nanochat"]
)
def test_norms_with_other_arguments_are_made_too(name: str) -> None:
    """Some have no `rms_norm_eps`, or other arguments than Llama's."""
    target = TransformersTarget(build(ENTRIES[name]))
    drafter = Mtp(path="untrained")
    rounds = list(decode(target, drafter, Token(), [5, 9, 7], max_new_tokens=3))
    assert sum(len(round.tokens) for round in rounds) == 3
