"""MTP: conformance, the layouts of DeepSeek-V3, GLM-4.5 and Qwen3-Next, and what does not fit."""

import json
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny.checkpoints import change
from tiny.gguf_drafters import assert_same_drafts, theirs
from tiny.models import ENTRIES, build
from tiny.published import PublishedNetwork, Refused, causal_mask, fed_back, hidden
from torch import Tensor, nn
from transformers.modeling_layers import MtpModel

from outrider import ConfigError, decode
from outrider.drafters.mtp.drafter import Mtp, MtpNetwork
from outrider.drafters.parts.checkpoint import replace_prefixes
from outrider.drafters.parts.networks.features import FeatureDrafter
from outrider.targets.transformers import TransformersTarget
from outrider.testing import parametrize_with_checks
from outrider.verifiers.token import Token

FUSION = {
    "deepseek_v3": ("enorm", "hnorm", "eh_proj", "shared_head.norm", "model.layers.4."),
    "glm4_moe": ("enorm", "hnorm", "eh_proj", "shared_head.norm", "model.layers.4."),
    "qwen2": (
        "token_layernorm",
        "hidden_layernorm",
        "input_proj",
        "final_layernorm",
        "model.mtp_layers.0.",
    ),
    "qwen3_next": ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "fc", "norm", "mtp."),
}
"""The names of the two norms, the fusion and the last norm, and what all names begin with."""


def single_experts(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns tensors as they are published, with each expert's own."""
    single = dict(tensors)
    for name in [name for name in tensors if name.endswith("mlp.experts.down_proj")]:
        experts = name.removesuffix("down_proj")
        both, down = single.pop(f"{experts}gate_up_proj"), single.pop(name)
        for number in range(len(both)):
            gate, up = both[number].chunk(2)
            single[f"{experts}{number}.gate_proj.weight"] = gate
            single[f"{experts}{number}.up_proj.weight"] = up
            single[f"{experts}{number}.down_proj.weight"] = down[number]
    return single


def layer_of(name: str) -> Any:
    """Returns a random layer of full attention with experts, as the last one of each kind is."""
    layer: Any = build(ENTRIES[name], seed=7).get_decoder().layers[-1]
    layer.self_attn.layer_idx = 0
    return layer


class TestPublished(PublishedNetwork):
    """The layouts of DeepSeek-V3, GLM-4.5, MiMo (whose layers are Qwen2's) and Qwen3-Next."""

    drafter, network, variants = Mtp, MtpNetwork, tuple(FUSION)
    refused: ClassVar[Refused] = {
        r"tensor block\.mlp\.experts\.gate_up_proj is missing$": (
            {}, {"model.layers.4.mlp.experts.1.up_proj.weight": None},
        )
    }  # fmt: skip

    def target(self, llama: Any, variant: Any = None) -> TransformersTarget:
        return TransformersTarget(build(ENTRIES[variant]))

    def layout(self, model: Any, variant: str) -> Any:
        words, states, fusion, end, prefix = FUSION[variant]
        tensors = {f"{norm}.weight": 0.9 + 0.2 * torch.randn(32) for norm in (words, states, end)}
        tensors[f"{fusion}.weight"] = 0.9 + 0.2 * torch.randn(32, 64)
        inner = "layers.0." if prefix == "mtp." else ""
        layer = single_experts(layer_of(variant).state_dict())
        tensors |= {inner + name: tensor for name, tensor in layer.items()}
        if not inner:  # the published files have copies of these
            tensors["embed_tokens.weight"] = model.get_input_embeddings().weight
            tensors["shared_head.head.weight"] = model.get_output_embeddings().weight
        config = json.loads(model.config.to_json_string(use_diff=False))
        return config, {prefix + name: tensor for name, tensor in tensors.items()}

    def saved(self, tensors: Any) -> Any:
        deepseek = FUSION["deepseek_v3"]
        names = {
            f"{other[-1]}{theirs}.": f"{deepseek[-1]}{ours}."
            for other in (FUSION["qwen3_next"], FUSION["qwen2"])
            for theirs, ours in zip(other[:-1], deepseek[:-1], strict=True)
        }
        first = {"mtp.layers.0.": deepseek[-1], FUSION["qwen2"][-1]: deepseek[-1]}
        saved = replace_prefixes(tensors, names | first)
        if any(name.startswith(FUSION["qwen2"][-1]) for name in tensors):
            fusion = f"{deepseek[-1]}eh_proj.weight"
            saved[fusion] = saved[fusion].roll(32, 1)  # MiMo reads the state first
        copies = ("embed_tokens.weight", "shared_head.head.weight")
        return {name: rows for name, rows in saved.items() if not name.endswith(copies)}

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: str) -> Any:
        decoder, layer = model.get_decoder(), layer_of(variant)
        words, states, fusion, end, prefix = FUSION[variant]

        def normed(name: str, x: Any) -> Any:
            norm = type(decoder.norm)(32, model.config.rms_norm_eps)
            norm.load_state_dict({"weight": w[f"{prefix}{name}.weight"]})
            return norm(x)

        def step(before: Any, tokens: Any) -> Any:
            embedded = normed(words, model.get_input_embeddings()(tokens))
            both = [embedded, normed(states, before)]
            x = torch.cat(both[::-1] if variant == "qwen2" else both, dim=-1)
            x = x @ w[f"{prefix}{fusion}.weight"].T
            positions = torch.arange(tokens.shape[1])[None]
            after = layer(
                x,
                attention_mask=causal_mask(tokens.shape[1]),
                position_embeddings=decoder.rotary_emb(x, positions),
                position_ids=positions,
            )
            after = normed(end, after)
            return after, model.lm_head(after)

        return fed_back(hidden(model, text), text, drafted, step)


class TestSeveralLayers(PublishedNetwork):
    """Three layers with experts, or none, each of which transformers' own model runs once."""

    drafter, network, longest = Mtp, MtpNetwork, 3
    variants = ("deepseek_v3", "glm4_moe")
    refused: ClassVar[Refused] = {
        r"tensor further\.1\.hnorm\.weight is missing$": (
            {}, {"model.layers.6.hnorm.weight": None},
        )
    }  # fmt: skip

    def target(self, llama: Any, variant: Any = None) -> TransformersTarget:
        return TransformersTarget(build(ENTRIES[variant]))

    def theirs(self, model: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            layers = MtpModel(model, 3).eval()
            for parameter in layers.layers.parameters():
                nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.2)
        return layers

    def layout(self, model: Any, variant: str) -> Any:
        tensors = {}
        for number, layer in enumerate(self.theirs(model).layers):
            names = {"mtp_block.": "", "post_norm.": "shared_head.norm."}
            for name, rows in replace_prefixes(layer.state_dict(), names).items():
                tensors[f"model.layers.{4 + number}.{name}"] = rows
        return json.loads(model.config.to_json_string(use_diff=False)), single_experts(tensors)

    def reference(self, model: Any, w: Any, text: Any, drafted: Any, variant: str) -> Any:
        layers, states, probs = self.theirs(model), hidden(model, text), []
        for depth in range(len(drafted)):
            ids = torch.tensor([[*text, *drafted[:depth]][depth + 1 :]])
            positions = torch.arange(ids.shape[1])[None] + depth + 1
            states = layers.forward_layer(depth, states, positions, None, input_ids=ids)
            probs.append(layers._project_to_logits(states)[0, -1].softmax(-1))
        return probs


def several(tree: str | None = None) -> Mtp:
    """Returns a drafter with three random layers."""
    drafter = Mtp("untrained", tree)
    FeatureDrafter.__init__(drafter, MtpNetwork, "untrained", tree, further=2)
    return drafter


@parametrize_with_checks([partial(several, "2x2")])
def test_several_layers_keep_the_contract(
    make: Callable[[], Any], check: Callable[[Any], None]
) -> None:
    check(make)


@pytest.mark.parametrize(("kind", "layers"), [("qwen3_next", 1), ("glm4_moe", 1), ("glm4_moe", 3)])
def test_a_gguf_file_of_a_model_has_its_layers(kind: str, layers: int, tmp_path: Path) -> None:
    """There, norms of Qwen3-Next are stored as what they multiply by."""
    family: PublishedNetwork = TestPublished() if layers == 1 else TestSeveralLayers()
    target = family.target(None, kind)
    tensors, first = family.folder(tmp_path, target, kind), len(target.model.get_decoder().layers)
    if kind == "qwen3_next":
        own, parts = f"model.layers.{first}.", ("enorm", "hnorm", "eh_proj", "shared_head.norm")
        published = dict(zip(FUSION[kind], parts, strict=False))
        names = {f"mtp.{part}.": f"{own}{name}." for part, name in published.items()}
        tensors = replace_prefixes(tensors, names | {"mtp.layers.0.": own})
    count = len(layer_of(kind).mlp.experts.down_proj)
    for number, part in product(range(first, first + layers), ("gate", "up", "down")):
        experts = f"model.layers.{number}.mlp.experts."
        each = [tensors.pop(f"{experts}{n}.{part}_proj.weight") for n in range(count)]
        tensors[f"{experts}{part}_proj"] = torch.stack(each)
    named = {theirs(name, "model.layers."): rows for name, rows in tensors.items()}
    if kind == "qwen3_next":
        named |= {name: rows + 1 for name, rows in named.items() if "norm" in name}
        gate = f"blk.{first}.ffn_gate_inp_shexp.weight"
        named[gate] = named[gate][0]
    named |= {"blk.0.attn_norm.weight": torch.ones(32), "output_norm.weight": torch.ones(32)}
    entries = {"block_count": first + layers, "nextn_predict_layers": layers}
    contents = (kind.replace("_", ""), entries | {"embedding_length": 32}, named)
    assert_same_drafts(Mtp, target, tmp_path, contents)


def test_matrices_in_eight_bits_have_a_scale_for_each_block(tmp_path: Path) -> None:
    family, name = TestPublished(), "model.layers.4.mlp.shared_experts.up_proj.weight"
    target = family.target(None, "deepseek_v3")
    tensors = family.folder(tmp_path, target, "deepseek_v3")
    rows, (high, wide) = tensors[name].to(torch.float8_e4m3fn), tensors[name].shape
    scales = torch.rand(-(-high // 5), -(-wide // 12))
    blocks = {"quantization_config": {"weight_block_size": [5, 12]}}
    change(tmp_path, blocks, {name: rows, f"{name}_scale_inv": scales})
    read = MtpNetwork.read_checkpoint(tmp_path, target).state_dict()
    for row in range(high):
        for column in range(wide):
            exact = float(rows[row, column]) * float(scales[row // 5, column // 12])
            found = read["block.mlp.shared_experts.up_proj.weight"][row, column]
            assert float(found) == pytest.approx(exact)


def test_the_layer_is_read_from_the_files_of_the_target(tmp_path: Path) -> None:
    family = TestPublished()
    target = family.target(None, "deepseek_v3")
    tensors = family.folder(tmp_path, target, "deepseek_v3")
    target.model.save_pretrained(tmp_path)
    target = TransformersTarget(type(target.model).from_pretrained(tmp_path).eval())
    tensors |= load_file(tmp_path / "model.safetensors")
    save_file(tensors, tmp_path / "model.safetensors")
    rounds = list(decode(target, Mtp(), Token(), [3, 4, 5], gamma=3, max_new_tokens=9))
    assert rounds[0].drafted == 0 and rounds[1].drafted == 3


def test_a_target_without_such_tensors(llama: Any, tmp_path: Path) -> None:
    model = llama()
    with pytest.raises(ConfigError, match=r"^drafter\.path=None: expected a folder, the target"):
        Mtp().bind(TransformersTarget(model))
    model.save_pretrained(tmp_path)
    line = r"expected tensors of multi-token prediction, named model\.layers\.\d+\.\*, mtp\.\* or m"
    with pytest.raises(ConfigError, match=line):
        Mtp(str(tmp_path)).bind(TransformersTarget(model))


@pytest.mark.parametrize(
    "name", ["cohere", "cohere2", "starcoder2", "stablelm", "nemotron", "olmo", "nanochat"]
)
def test_norms_with_other_arguments_are_made_too(name: str) -> None:
    """Some have no `rms_norm_eps`, or other arguments than Llama's."""
    target = TransformersTarget(build(ENTRIES[name]))
    drafter = Mtp(path="untrained")
    rounds = list(decode(target, drafter, Token(), [5, 9, 7], max_new_tokens=3))
    assert sum(len(round.tokens) for round in rounds) == 3
