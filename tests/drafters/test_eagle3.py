"""EAGLE-3: conformance, the published layer, and the layouts of SafeAILab and of speculators."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tiny.checkpoints import change, write
from torch import nn
from transformers import Qwen3Config
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3RotaryEmbedding

from outrider import ConfigError, decode
from outrider.drafters.eagle3.drafter import Eagle3
from outrider.drafters.eagle3.network import Eagle3Network
from outrider.drafters.parts.checkpoint import find_tensors
from outrider.drafters.parts.networks.features import default_layers
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token


class Midlayer(nn.Module):
    """The layer of SafeAILab's cnets.py, of transformers' parts."""

    def __init__(self, config: Any, attention: Any = LlamaAttention) -> None:
        super().__init__()
        self.self_attn = attention(config, 0)
        for name in ("q_proj", "k_proj", "v_proj"):
            width = getattr(self.self_attn, name).out_features
            setattr(self.self_attn, name, nn.Linear(32, width, bias=False))
        self.mlp = LlamaMLP(config)
        self.hidden_norm, self.input_layernorm, self.post_attention_layernorm = (
            LlamaRMSNorm(16, config.rms_norm_eps) for _ in range(3)
        )
        for name, tensor in self.named_parameters():
            if "norm" in name:
                nn.init.uniform_(tensor)

    def forward(self, words: Any, states: Any, mask: Any, turn: Any) -> Any:
        x = torch.cat([self.input_layernorm(words), self.hidden_norm(states)], dim=-1)
        x = states + self.self_attn(x, position_embeddings=turn, attention_mask=mask)[0]
        return x + self.mlp(self.post_attention_layernorm(x))


@pytest.fixture
def published(deep_llama: Any, tmp_path: Path) -> Any:
    """A checkpoint in SafeAILab's layout with 12 tokens, and the parts that it holds."""
    model = deep_llama(head_dim=8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        layer, fc = Midlayer(model.config), nn.Linear(48, 16, bias=False)
        head = nn.Linear(16, 12, bias=False)
    ids = torch.arange(0, 24, 2)
    tensors = {f"midlayer.{name}": tensor for name, tensor in layer.state_dict().items()}
    tensors |= {
        "fc.weight": fc.weight,
        "lm_head.weight": head.weight,
        "norm.weight": torch.rand(16),
    }
    tensors |= {"d2t": ids - torch.arange(12), "t2d": torch.isin(torch.arange(31), ids)}
    keys = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    config = {name: getattr(model.config, name) for name in keys}
    config |= {"vocab_size": 31, "draft_vocab_size": 12}
    config |= {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]}}  # their outputs
    folder = Path(write(tmp_path / "EAGLE3-tiny", config, tensors))
    return TransformersTarget(model), folder, layer, fc, tensors


def test_the_layer_is_that_of_the_published_weights(published: Any) -> None:
    target, folder, layer, fc, tensors = published
    network = Eagle3Network.read_checkpoint(folder, target)
    three = [torch.randn(1, 6, 16) for _ in range(3)]
    states = network.states(three)
    torch.testing.assert_close(states, fc(torch.cat(three, dim=-1)))
    tokens, positions = torch.randint(0, 31, (1, 6)), torch.arange(6)[None]
    turn = LlamaRotaryEmbedding(target.model.config)(states, positions)
    mask = torch.full((6, 6), float("-inf")).triu(1)[None, None]
    right = layer(target.model.get_input_embeddings()(tokens), states, mask, turn)
    after = network(states, tokens, positions, None, KeysAndValues())
    torch.testing.assert_close(after, right, rtol=1e-4, atol=1e-5)
    norm = LlamaRMSNorm(16, target.model.config.rms_norm_eps)
    norm.weight = nn.Parameter(tensors["norm.weight"])
    scores = norm(right) @ tensors["lm_head.weight"].T
    torch.testing.assert_close(network.logits(after), scores, rtol=1e-4, atol=1e-4)
    spread = network.vocabulary.spread(network.logits(after))[0, 0]
    assert spread.isfinite().nonzero().flatten().tolist() == list(range(0, 24, 2))


def test_an_eagle3_drafts_with_read_weights(published: Any) -> None:
    target, folder, *_ = published
    drafter = Eagle3(str(folder))
    assert drafter.needs == {"model", *(f"hidden_states.{layer}" for layer in (1, 2, 4))}
    rounds = list(decode(target, drafter, Token(), [3, 4, 5], gamma=3, max_new_tokens=12))
    assert all(round.draft for round in rounds[1:-1])
    assert all(token % 2 == 0 for round in rounds for token in round.draft)


def test_a_saved_config_is_in_the_layout_of_speculators(published: Any, tmp_path: Path) -> None:
    target, folder, *_ = published
    Eagle3Network.read_checkpoint(folder, target).save_checkpoint(tmp_path / "again", target)
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["speculators_model_type"] == "eagle3"
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, 4]
    assert config["speculators_config"]["verifier"]["name_or_path"] is None


def test_the_target_is_named_by_the_folder_that_has_its_tables(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    target = TransformersTarget(folder.name)
    network = Eagle3Network.untrained(target, Vocabulary(31))
    network.save_checkpoint(tmp_path / "x", target)
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    assert config["speculators_config"]["verifier"]["name_or_path"] == str(folder.resolve())


def test_a_saved_network_has_the_published_tensors(published: Any, tmp_path: Path) -> None:
    target, folder, _, _, tensors = published
    Eagle3Network.read_checkpoint(folder, target).save_checkpoint(tmp_path / "again", target)
    written = find_tensors(tmp_path / "again")[1]
    right = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in tensors.items()}
    assert set(written) == set(right)
    for name, tensor in right.items():
        torch.testing.assert_close(written[name].to(tensor.dtype), tensor, atol=1e-3, rtol=1e-3)


def test_speculators_files_are_read_too(published: Any) -> None:
    target, folder, _, _, tensors = published
    right = Eagle3Network.read_checkpoint(folder, target).state_dict()
    renamed = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in tensors.items()}
    config = json.loads((folder / "config.json").read_text())
    del config["eagle_config"], config["draft_vocab_size"]
    nested = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": config,
        "draft_vocab_size": 12,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 4],
        "norm_before_residual": False,
    }
    write(folder, nested, renamed)
    again = Eagle3Network.read_checkpoint(folder, target).state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in right.items())


def test_layers_that_the_target_lacks_are_refused(published: Any) -> None:
    target, folder, *_ = published
    change(folder, {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 8]}})
    with pytest.raises(ConfigError, match=r"Eagle3 needs hidden_states\.9"):
        decode(target, Eagle3(str(folder)), Token(), [3, 4])
    with pytest.raises(ConfigError, match=r"reads hidden_states\.9, and \w+ has \d layers"):
        Eagle3(str(folder)).bind(target)  # as a check does


def normed(x: Any, weight: Any) -> Any:
    return weight * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


@pytest.mark.parametrize("flag", ["norm_output", "norm_before_fc", "fc_norm"])
def test_norms_are_where_published_networks_have_them(
    flag: str, published: Any, tmp_path: Path
) -> None:
    target, folder, _, fc, tensors = published
    plain = Eagle3Network.read_checkpoint(folder, target)
    together, apart = torch.rand(48), torch.rand(3, 16)
    extra = {
        "norm_output": {},
        "norm_before_fc": {"input_norm.weight": together},
        "fc_norm": {f"fc_norm.{i}.weight": apart[i] for i in range(3)},
    }[flag]
    change(folder, {flag: True, "rms_norm_eps": 1e-6}, extra)
    network = Eagle3Network.read_checkpoint(folder, target)
    three = [torch.randn(1, 6, 16) for _ in range(3)]
    read = {
        "norm_output": torch.cat(three, dim=-1),
        "norm_before_fc": normed(torch.cat(three, dim=-1), together),
        "fc_norm": torch.cat([normed(rows, apart[i]) for i, rows in enumerate(three)], dim=-1),
    }[flag]
    states = network.states(three)
    torch.testing.assert_close(states, fc(read), rtol=1e-4, atol=1e-5)
    tokens, positions = torch.randint(0, 31, (1, 6)), torch.arange(6)[None]
    right = plain(states, tokens, positions, None, KeysAndValues())
    logits = normed(right, tensors["norm.weight"]) @ tensors["lm_head.weight"].T
    if flag == "norm_output":  # what is fed back is what the head reads
        right = normed(right, tensors["norm.weight"])
    after = network(states, tokens, positions, None, KeysAndValues())
    torch.testing.assert_close(after, right, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(network.logits(after), logits, rtol=1e-4, atol=1e-4)
    network.save_checkpoint(tmp_path / "again", target)
    again = Eagle3Network.read_checkpoint(tmp_path / "again", target)
    assert again.config.norms == network.config.norms != plain.config.norms


def test_a_layer_may_be_that_of_qwen3(published: Any, tmp_path: Path) -> None:
    target, folder, *_ = published
    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    sizes = {name: getattr(target.model.config, name) for name in names} | {
        "head_dim": 8,
        "vocab_size": 31,
    }
    config = Qwen3Config(**sizes, num_hidden_layers=1, attn_implementation="eager", mlp_bias=False)
    layer = Midlayer(config, Qwen3Attention)
    (folder / "config.json").write_text("{}")
    stored = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": config.to_diff_dict(),
        "norm_before_residual": False,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 4],
    }
    change(folder, stored, {f"midlayer.{k}": v for k, v in layer.state_dict().items()})
    network = Eagle3Network.read_checkpoint(folder, target)
    states, tokens = torch.randn(1, 6, 16), torch.randint(0, 31, (1, 6))
    positions = torch.arange(6)[None]
    turn = Qwen3RotaryEmbedding(config)(states, positions)
    mask = torch.full((6, 6), float("-inf")).triu(1)[None, None]
    right = layer(target.model.get_input_embeddings()(tokens), states, mask, turn)
    after = network(states, tokens, positions, None, KeysAndValues())
    torch.testing.assert_close(after, right, rtol=1e-4, atol=1e-5)
    network.save_checkpoint(tmp_path / "again", target)
    assert Eagle3Network.read_checkpoint(tmp_path / "again", target).config == network.config


def test_layers_default_to_low_middle_and_high_ones(published: Any) -> None:
    target, folder, *_ = published
    change(folder, {"eagle_config": None})
    drafter = Eagle3(str(folder))
    rounds = list(decode(target, drafter, Token(), [3, 4, 5], gamma=3, max_new_tokens=8))
    assert drafter.needs == {"model", "hidden_states.2"}  # all three are the same in a small target
    assert all(round.draft for round in rounds[1:-1])


def test_weights_may_be_in_several_files(published: Any) -> None:
    target, folder, *_, tensors = published
    right = Eagle3Network.read_checkpoint(folder, target).state_dict()
    (folder / "model.safetensors").unlink()
    files = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for file in set(files.values()):
        part = {name: tensors[name] for name in tensors if files[name] == file}
        save_file({name: tensor.detach().clone() for name, tensor in part.items()}, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    again = Eagle3Network.read_checkpoint(folder, target).state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in right.items())
    save_file({"fc.weight": torch.zeros(1)}, folder / "model.safetensors")  # comes first
    with pytest.raises(ConfigError, match="draft_vocab_size=12: expected 31"):
        Eagle3Network.read_checkpoint(folder, target)
    (folder / "model.safetensors").unlink()
    index.write_text("{}")
    with pytest.raises(ConfigError, match="expected the file of each tensor in 'weight_map'"):
        Eagle3Network.read_checkpoint(folder, target)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"eagle_config": {"use_mtp_layernorm": True}}, "use_mtp_layernorm=True: expected False"),
        ({"num_hidden_layers": 2}, "num_hidden_layers=2: expected 1"),
        ({"fc_norm": True, "norm_before_fc": True}, "fc_norm=True: expected False with norm_bef"),
        ({"speculators_model_type": "eagle3"}, "names no norm_before_residual: expected true or"),
        ({"speculators_model_type": "dspark"}, "speculators_model_type='dspark': expected 'eagle3"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 5.0}}}, "rope_parameters=.'full_a"),
        ({"model_type": "granite"}, "model_type='granite': expected llama or qwen3"),
        ({"target_hidden_size": 8}, "target_hidden_size=8: expected 16"),
        ({"draft_vocab_size": 11}, "draft_vocab_size=11: expected 12, the size of"),
        ({"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}, r"expected \(1, 2, 4\), as the others"),
    ],
)
def test_other_networks_are_refused(changes: Any, line: str, published: Any) -> None:
    target, folder, *_ = published
    change(folder, changes)
    with pytest.raises(ConfigError, match=line):
        Eagle3Network.read_checkpoint(folder, target)


@pytest.mark.parametrize("moved", [31, -1])
def test_tokens_that_the_target_lacks_are_refused(moved: int, published: Any) -> None:
    target, folder, *_, tensors = published
    change(folder, {}, {"d2t": tensors["d2t"] + moved})
    with pytest.raises(ConfigError, match=r"d2t=.*: expected shifts to ids of the target"):
        Eagle3Network.read_checkpoint(folder, target)


def test_missing_entries_are_those_of_llama(deep_llama: Any, published: Any) -> None:
    _, folder, *_ = published
    target = TransformersTarget(deep_llama(head_dim=8, rope_theta=500.0, rms_norm_eps=0.1))
    change(folder, {"model_type": "phi3", "architectures": ["LlamaForCausalLMEagle3"]})
    sizes = Eagle3Network.read_checkpoint(folder, target).config.sizes
    assert (sizes.rope_theta, sizes.rms_norm_eps) == (10_000.0, 1e-6)


def test_layers_may_be_named_as_deepspec_does(published: Any) -> None:
    _, folder, *_ = published
    change(folder, {"eagle_config": None, "target_layer_ids": [0, 1, 3], "ttt_length": 7})
    assert Eagle3(str(folder)).needs == {"model", *(f"hidden_states.{i}" for i in (1, 2, 4))}


def test_a_flag_may_be_in_the_nested_config(published: Any) -> None:
    target, folder, *_ = published
    nested = json.loads((folder / "config.json").read_text())["eagle_config"]
    change(folder, {"eagle_config": nested | {"norm_output": True}})
    assert Eagle3Network.read_checkpoint(folder, target).config.norms.output


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_network_may_have_embeddings_of_its_own(
    is_copy: bool, published: Any, tmp_path: Path
) -> None:
    target, folder, layer, *_ = published
    table = target.model.get_input_embeddings().weight.detach()
    words = table.half() if is_copy else torch.randn(31, 16)
    change(folder, {}, {"embed_tokens.weight": words})
    network = Eagle3Network.read_checkpoint(folder, target)
    states, tokens = torch.randn(1, 2, 16), torch.tensor([[3, 4]])
    turn = LlamaRotaryEmbedding(target.model.config)(states, torch.arange(2)[None])
    mask = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])[None, None]
    right = layer((table if is_copy else words)[tokens], states, mask, turn)
    after = network(states, tokens, torch.arange(2)[None], None, KeysAndValues())
    torch.testing.assert_close(after, right, rtol=1e-4, atol=1e-5)
    network.save_checkpoint(tmp_path / "again", target)
    assert ("embed_tokens.weight" in find_tensors(tmp_path / "again")[1]) is not is_copy


def test_low_middle_and_high(deep_llama: Any) -> None:
    assert default_layers(TransformersTarget(deep_llama())) == (2, 2, 2)
    assert default_layers(TransformersTarget(deep_llama(num_hidden_layers=12))) == (2, 6, 9)
