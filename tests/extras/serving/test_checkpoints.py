"""Students and layers for multi-token prediction as checkpoints that others read."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny.drafters import bound
from tiny.models import ENTRIES, build
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM
from transformers.modeling_layers import MtpModel

from outrider import ConfigError, Sampling
from outrider.drafters.mtp.drafter import MtpNetwork
from outrider.drafters.pard import Pard
from outrider.drafters.parts.networks import student
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.extras.serving.checkpoints import spare_token, write_parallel_model, write_stitched
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import draft_after

TEXT = [3, 4, 5]
SAMPLED = Sampling(temperature=1.0)


@pytest.fixture
def target(llama: Any, words: Any) -> TransformersTarget:
    """A target with two more rows than its tokenizer has tokens."""
    return TransformersTarget(llama(vocab_size=len(words) + 2), words)


def load(folder: Path) -> Any:
    auto: Any = AutoModelForCausalLM
    return auto.from_pretrained(folder).eval()


@torch.no_grad()
def test_a_parallel_student_has_its_mask_among_the_targets_tokens(
    target: TransformersTarget, llama: Any, words: Any, tmp_path: Path
) -> None:
    small = llama(seed=1, num_hidden_layers=1, vocab_size=len(words) + 2)
    student.save_student(small, tmp_path / "trained", mask=torch.randn(16))
    write_parallel_model(tmp_path / "trained", target, tmp_path / "whole")
    config = json.loads((tmp_path / "whole" / "config.json").read_text())
    assert config["pard_token"] == len(words) and config["vocab_size"] == len(words) + 2
    assert student.MARK not in config and not config["tie_word_embeddings"]
    trained, whole = student.read_student(tmp_path / "trained", target), load(tmp_path / "whole")
    rows = [
        model(torch.tensor([[*TEXT, *[model.config.pard_token] * 3]])).logits
        for model in (trained, whole)
    ]
    torch.testing.assert_close(rows[1], rows[0], rtol=1e-5, atol=1e-5)
    drafts = []
    for name in ("trained", "whole"):
        drafter = bound(Pard(str(tmp_path / name)), target)
        drafts.append(draft_after(drafter, target, TEXT, 4))
    assert drafts[0].tokens == drafts[1].tokens
    for one, other in zip(*(draft.probs for draft in drafts), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_the_mask_replaces_a_token_that_texts_lack(
    target: TransformersTarget, llama: Any, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spare_token(target) == len(words)
    full = TransformersTarget(llama(vocab_size=len(words)), words)
    with pytest.raises(ConfigError, match="drafter pard: expected a target whose tokenizer has"):
        spare_token(full)
    texts = {7: "<a>", 9: "<b>", 8: "<c>", 11: "x"}
    added = {id: AddedToken(text, special=text != "x") for id, text in texts.items()}
    monkeypatch.setattr(type(words), "added_tokens_decoder", property(lambda _: added))
    monkeypatch.setattr(words, "chat_template", "<b> {{ messages }}")
    assert spare_token(full) == 8
    full.tokenizer = None
    with pytest.raises(ConfigError, match="drafter pard"):
        spare_token(full)


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
