"""EAGLE: conformance, the published layer, SafeAILab's files, and files that do not fit."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny.checkpoints import change
from tiny.drafters import bound
from tiny.parts import held
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from outrider import ConfigError, Sampling, decode
from outrider.drafters.eagle import Eagle, EagleNetwork
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import context_after, tiny_target, write_draft
from outrider.verifiers.token import Token

SAMPLED: dict[str, Any] = {"gamma": 3}


@pytest.fixture
def published(llama: Any, tmp_path: Path) -> Any:
    """A checkpoint in SafeAILab's layout, and the layer that it holds."""
    model = llama(head_dim=8)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        layer = LlamaDecoderLayer(model.config, 0)
        layer.input_layernorm = torch.nn.Identity()
        fc = torch.nn.Linear(32, 16)
    tensors = {f"layers.0.{name}": tensor for name, tensor in layer.state_dict().items()}
    tensors |= {f"fc.{name}": tensor for name, tensor in fc.state_dict().items()}
    tensors["embed_tokens.weight"] = model.model.embed_tokens.weight.detach().clone()
    folder = tmp_path / "EAGLE-tiny"
    folder.mkdir()
    keys = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads")
    config = {name: getattr(model.config, name) for name in keys} | {"vocab_size": 31}
    (folder / "config.json").write_text(json.dumps(config))
    torch.save(tensors, folder / "pytorch_model.bin")
    return TransformersTarget(model), folder, layer, fc, tensors


def test_the_layer_is_that_of_the_published_weights(published: Any) -> None:
    target, folder, layer, fc, _ = published
    network = EagleNetwork.read_checkpoint(folder, target)
    states, tokens = torch.randn(2, 6, 16), torch.randint(0, 31, (2, 6))
    positions = torch.arange(6).expand(2, -1)
    words = target.model.get_input_embeddings()(tokens)
    x = fc(torch.cat([words, states], dim=-1))
    turn = LlamaRotaryEmbedding(target.model.config)(x, positions)
    mask = torch.full((6, 6), float("-inf")).triu(1)[None, None]
    right = layer(x, attention_mask=mask, position_embeddings=turn)
    after = network(states, tokens, positions, None, KeysAndValues())
    torch.testing.assert_close(after, right, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.logits(after), target.model.lm_head(after))


def test_an_eagle_drafts_with_read_weights(published: Any) -> None:
    target, folder, *_ = published
    rounds = list(
        decode(target, Eagle(str(folder)), Token(), [3, 4, 5], gamma=3, max_new_tokens=12)
    )
    assert rounds[0].drafted == 0  # the target has yet to read the prompt
    assert all(round.draft for round in rounds[1:-1])


def test_a_fusion_without_bias(published: Any) -> None:
    target, folder, *_ = published
    change(folder, {"bias": False}, {"fc.bias": None})
    assert EagleNetwork.read_checkpoint(folder, target).fc.bias is None


def test_positions_are_the_targets_only_in_a_config_without_sizes(
    llama: Any, published: Any
) -> None:
    _, folder, *_ = published
    target = TransformersTarget(llama(head_dim=8, rope_theta=500.0))
    file = folder / "config.json"
    assert EagleNetwork.read_checkpoint(folder, target).self_attn.config.rope_theta == 10_000.0
    file.write_text(json.dumps({"hidden_size": 16, "vocab_size": 31}))
    assert EagleNetwork.read_checkpoint(folder, target).self_attn.config.rope_theta == 500.0


UP = "mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("entries", "tensors", "line"),
    [
        ({"hidden_size": 8}, {}, "its hidden_size is 8, the target's"),
        ({"vocab_size": 8}, {}, "its vocab_size is 8, the target's"),
        ({"biass": False}, {}, r"biass=False: expected no such entry .*mean 'bias'"),
        ({"hidden_act": "gelu"}, {}, "hidden_act='gelu': expected 'silu'"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, {}, "rope_type='dynamic'"),
        ({}, {"fc.bias": None}, r"tensor fc\.bias is missing"),
        ({}, {f"layers.0.{UP}": torch.zeros(3, 3)}, rf"{UP} is \[3, 3\]: expected \[32, 16\]"),
        ({}, {f"layers.1.{UP}": torch.zeros(1)}, rf"layers\.1\.{UP} has no"),
    ],
)
def test_other_networks_are_refused(entries: Any, tensors: Any, line: str, published: Any) -> None:
    target, folder, *_ = published
    change(folder, entries, tensors)
    with pytest.raises(ConfigError, match=line):
        Eagle(str(folder)).bind(target)


def test_a_missing_folder_is_refused(llama: Any) -> None:
    with pytest.raises(ConfigError, match=r"drafter.path='gone': expected a folder that exists"):
        Eagle("gone").bind(TransformersTarget(llama()))


def test_a_small_vocabulary_writes_nothing_else(tmp_path: Path) -> None:
    target, vocabulary = tiny_target(4), Vocabulary(4, torch.tensor([1, 3]))
    EagleNetwork.untrained(target, vocabulary).save_checkpoint(tmp_path, target)
    drafter = bound(Eagle(str(tmp_path)), target)
    for seed in range(20):
        draft = write_draft(
            drafter,
            target,
            context_after(drafter, target, [0, 1, 2]),
            sampling=Sampling(temperature=1.0),
            seed=seed,
            **SAMPLED,
        )
        assert len(draft) == 3
        assert set(draft.tokens) <= {1, 3}
        assert all(probs is not None and probs[[0, 2]].sum() == 0 for probs in draft.probs)


def test_a_chain_is_a_tree_of_one_path() -> None:
    target = tiny_target(7)
    chain, tree = Eagle("untrained"), Eagle("untrained", tree=[[0], [0, 0], [0, 0, 0]])
    drafts = []
    for drafter in (chain, tree):
        drafter.bind(target)
        context = context_after(drafter, target, [0, 1, 2, 3])
        drafts.append(write_draft(drafter, target, context, sampling=Sampling(), **SAMPLED))
    assert len(drafts[0]) == 3 and drafts[0].tokens == drafts[1].tokens
    torch.testing.assert_close(drafts[0].logits, drafts[1].logits)


def test_each_state_is_read_with_the_token_after_it(llama: Any) -> None:
    target, drafter, read = TransformersTarget(llama()), Eagle("untrained"), list[Any]()
    drafter.bind(target)
    network = held(drafter, EagleNetwork)
    network.register_forward_pre_hook(lambda _, inputs: read.append(inputs[1].tolist()))
    rounds = iter(decode(target, drafter, Token(), [3, 4, 5], gamma=1, max_new_tokens=4))
    first, _ = next(rounds), next(rounds)
    assert read[0] == [[4, 5, *first.tokens]]


def test_eagle_reads_the_last_state_of_the_target() -> None:
    assert Eagle("untrained").needs == {"model", HIDDEN}
