"""EAGLE-3: the published layer, in the layouts of SafeAILab, speculators and others."""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import save_file
from tiny.checkpoints import change
from tiny.gguf_drafters import SIZES, assert_same_drafts, neighbours, theirs
from tiny.published import (
    PublishedNetwork,
    Refused,
    causal_mask,
    fed_back,
    hidden,
    part_of,
    sizes_of,
)
from torch import nn
from transformers import Qwen3Config
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from outrider import ConfigError, decode
from outrider.drafters.eagle3.config import NORMS
from outrider.drafters.eagle3.drafter import Eagle3, Eagle3Network
from outrider.drafters.parts.networks.features import default_layers
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.transformers import TransformersTarget
from outrider.verifiers.token import Token


class Midlayer(nn.Module):
    """The layer of SafeAILab's cnets.py, of transformers' parts."""

    def __init__(self, config: Any, attention: Any = LlamaAttention) -> None:
        super().__init__()
        self.config = config
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


IDS = torch.arange(0, 24, 2)


def normed(x: Any, weight: Any) -> Any:
    return weight * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


class TestPublished(PublishedNetwork):
    """Networks with 12 tokens; the flags are those of EAGLE-3.1 and of gpt-oss' drafters."""

    drafter, network = Eagle3, Eagle3Network
    variants = ("SafeAILab", "speculators", "qwen3", "words", *NORMS)
    sizes = MappingProxyType({"head_dim": 8})
    refused: ClassVar[Refused] = {
        line: (entries, {})
        for line, entries in {
            "fc_norm=True: expected False with norm_b": {"fc_norm": True, "norm_before_fc": True},
            "names no norm_before_residual: expected": {"speculators_model_type": "eagle3"},
            "rope_parameters=.'full_a": {"rope_parameters": {"full_attention": {"factor": 5.0}}},
            "Eagle4'.: expected an open licence": {"architectures": ["LlamaForCausalLMEagle4"]},
            "draft_vocab_size=11: expected 12, the size": {"draft_vocab_size": 11},
            r"expected \(1, 2, 4\), as the": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]},
            r"reads hidden_states\.9, and \w+ has \d layers": {
                "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 8]}
            },
        }.items()
    } | {
        rf"d2t=.*: expected shifts to ids of the target{end}": ({}, {"d2t": IDS + moved})
        for end, moved in (("", 31), (", those of t2d", -1))
    }

    def layer(self, model: Any, variant: str) -> Midlayer:
        if variant != "qwen3":
            return Midlayer(model.config)
        config: Any = Qwen3Config(
            **sizes_of(model), head_dim=8, num_hidden_layers=1, attn_implementation="eager"
        )
        config.mlp_bias = False  # which Llama's parts read
        return Midlayer(config, Qwen3Attention)

    def layout(self, model: Any, variant: str) -> Any:
        layer = self.layer(model, variant)
        is_nested = variant in ("speculators", "qwen3")
        prefix = "layers.0." if is_nested else "midlayer."
        tensors = {f"{prefix}{name}": rows for name, rows in layer.state_dict().items()}
        tensors |= {"fc.weight": torch.randn(16, 48) / 7, "lm_head.weight": torch.randn(12, 16)}
        tensors |= {"norm.weight": torch.rand(16)}
        tensors |= {"d2t": IDS - torch.arange(12), "t2d": torch.isin(torch.arange(31), IDS)}
        if variant == "norm_before_fc":
            tensors["input_norm.weight"] = torch.rand(48)
        elif variant == "fc_norm":
            tensors |= {f"fc_norm.{i}.weight": torch.rand(16) for i in range(3)}
        elif variant == "words":
            tensors["embed_tokens.weight"] = torch.randn(31, 16)
        ids, config = "eagle_aux_hidden_state_layer_ids", sizes_of(model) | {"head_dim": 8}
        if is_nested:
            inner = layer.config.to_diff_dict() if variant == "qwen3" else config
            config = {"speculators_model_type": "eagle3", "transformer_layer_config": inner}
            config |= {ids: [1, 2, 4], "norm_before_residual": False}
        else:
            config |= {"eagle_config": {ids: [0, 1, 3]}}  # their outputs
        config |= {variant: True} if "norm" in variant else {}
        return config | {"draft_vocab_size": 12}, tensors

    def saved(self, tensors: Any) -> Any:
        return {name.replace("midlayer.", "layers.0."): rows for name, rows in tensors.items()}

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: str) -> Any:
        layer = self.layer(model, variant)
        layer.load_state_dict(part_of(self.saved(w), "layers.0."))
        words = w.get("embed_tokens.weight", model.get_input_embeddings().weight)
        read = hidden(model, text, 1, 2, 4)
        if variant == "norm_before_fc":
            read = normed(read, w["input_norm.weight"])
        elif variant == "fc_norm":
            rows = enumerate(read.chunk(3, dim=-1))
            read = torch.cat([normed(x, w[f"fc_norm.{i}.weight"]) for i, x in rows], dim=-1)

        def step(states: Any, tokens: Any) -> Any:
            count = tokens.shape[1]
            turn = LlamaRotaryEmbedding(model.config)(states, torch.arange(count)[None])
            after = layer(words[tokens], states, causal_mask(count), turn)
            last = normed(after, w["norm.weight"])
            logits = torch.full((1, count, 31), -torch.inf)
            logits[..., IDS] = last @ w["lm_head.weight"].T
            return last if variant == "norm_output" else after, logits

        return fed_back(read @ w["fc.weight"].T, text, drafted, step)

    def test_a_gguf_file_drafts_as_the_folder(self, llama: Any, tmp_path: Path) -> None:
        """There, rows that rotate together are neighbours, and d2t has the ids themselves."""
        target = self.target(llama)
        tensors = self.folder(tmp_path, target, "norm_before_fc")
        config = target.model.config
        entries = SIZES | {
            "block_count": 1, "rope.dimension_count": 8, "rope.freq_base": 1e4,
            "feed_forward_length": config.intermediate_size, "target_layers": [1, 2, 4],
            "attention.head_count": config.num_attention_heads, "norm_before_fc": True,
            "attention.head_count_kv": config.num_key_value_heads, "target_hidden_size": 16,
            "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        }  # fmt: skip
        named = {theirs(name, "layers."): rows for name, rows in self.saved(tensors).items()}
        del named["t2d"]
        named["d2t"] = IDS
        for name, heads in (("attn_q", "head_count"), ("attn_k", "head_count_kv")):
            full = f"blk.0.{name}.weight"
            named[full] = neighbours(named[full], entries[f"attention.{heads}"])
        assert_same_drafts(Eagle3, target, tmp_path, ("eagle3", entries, named))

    def read(self, llama: Any, folder: Path, **changes: Any) -> Any:
        """Returns the network in a folder whose config was changed."""
        target = self.target(llama)
        self.folder(folder, target, "SafeAILab")
        change(folder, changes)
        return Eagle3Network.read_checkpoint(folder, target)

    def test_a_saved_config_is_in_the_layout_of_speculators(
        self, llama: Any, tmp_path: Path
    ) -> None:
        self.read(llama, tmp_path).save_checkpoint(tmp_path / "again", self.target(llama))
        config = json.loads((tmp_path / "again" / "config.json").read_text())
        assert config["speculators_model_type"] == "eagle3"
        assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, 4]
        assert config["speculators_config"]["verifier"]["name_or_path"] is None

    def test_layers_default_to_low_middle_and_high_ones(self, llama: Any, tmp_path: Path) -> None:
        self.read(llama, tmp_path, eagle_config=None)
        drafter, target = Eagle3(str(tmp_path)), self.target(llama)
        rounds = list(decode(target, drafter, Token(), [3, 4, 5], gamma=3, max_new_tokens=8))
        assert drafter.needs == {"model", "hidden_states.2"}  # the same three in a small target
        assert all(round.draft for round in rounds[1:-1])

    def test_weights_may_be_in_several_files(self, llama: Any, tmp_path: Path) -> None:
        right = self.read(llama, tmp_path).state_dict()
        target = self.target(llama)
        tensors = self.folder(tmp_path, target, "SafeAILab")
        (tmp_path / "model.safetensors").unlink()
        files = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(tensors)}
        for file in set(files.values()):
            save_file({n: rows for n, rows in tensors.items() if files[n] == file}, tmp_path / file)
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": files}))
        again = Eagle3Network.read_checkpoint(tmp_path, target).state_dict()
        assert all(torch.equal(again[name], tensor) for name, tensor in right.items())
        save_file({"fc.weight": torch.zeros(1)}, tmp_path / "model.safetensors")  # comes first
        with pytest.raises(ConfigError, match="draft_vocab_size=12: expected 31"):
            Eagle3Network.read_checkpoint(tmp_path, target)

    def test_missing_entries_are_those_of_llama(self, llama: Any, tmp_path: Path) -> None:
        names = {"model_type": "phi3", "architectures": ["LlamaForCausalLMEagle3"]}
        sizes = self.read(llama, tmp_path, **names).config.sizes
        assert (sizes.rope_theta, sizes.rms_norm_eps) == (10_000.0, 1e-6)

    def test_layers_may_be_named_as_deepspec_does(self, llama: Any, tmp_path: Path) -> None:
        self.read(llama, tmp_path, eagle_config=None, target_layer_ids=[0, 1, 3], ttt_length=7)
        names = {f"hidden_states.{layer}" for layer in (1, 2, 4)}
        assert Eagle3(str(tmp_path)).needs == {"model", *names}

    def test_a_flag_may_be_in_the_nested_config(self, llama: Any, tmp_path: Path) -> None:
        assert self.read(llama, tmp_path, eagle_config={"norm_output": True}).config.norm_output


def test_the_target_is_named_by_the_folder_that_has_its_tables(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    target = TransformersTarget(folder.name)
    network = Eagle3Network.untrained(target, Vocabulary(31))
    network.save_checkpoint(tmp_path / "x", target)
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    assert config["speculators_config"]["verifier"]["name_or_path"] == str(folder.resolve())


def test_low_middle_and_high(deep_llama: Any) -> None:
    assert default_layers(TransformersTarget(deep_llama())) == (2, 2, 2)
    assert default_layers(TransformersTarget(deep_llama(num_hidden_layers=12))) == (2, 6, 9)
