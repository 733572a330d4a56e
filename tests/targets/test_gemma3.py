"""Gemma 3 from packages: a tiny model of its kind, as GGUF in parts, is put together and read."""

import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tiny.wrapped import stored_blocks, write_fields

from outrider.plugins.parts import make
from outrider.targets import gemma3
from outrider.targets.gguf import convert
from outrider.targets.transformers import TransformersTarget

LAYERS, WIDTH, HEADS, HEAD_DIM, INNER, WINDOW = 6, 32, 4, 64, 256, 16
WORDS = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", "u", "s", "e", "r", ":", "o", "n", "▁o"]
TEMPLATE = "{% for message in messages %}user: {{ message['content'] }}{% endfor %}"
KINDS = gguf.GGMLQuantizationType
LAYER = {
    "attn_q": ("self_attn.q_proj", (HEADS * HEAD_DIM, WIDTH), KINDS.Q5_0),
    "attn_k": ("self_attn.k_proj", (HEAD_DIM, WIDTH), KINDS.Q5_0),
    "attn_v": ("self_attn.v_proj", (HEAD_DIM, WIDTH), KINDS.Q8_0),
    "attn_output": ("self_attn.o_proj", (WIDTH, HEADS * HEAD_DIM), KINDS.Q4_K),
    "ffn_gate": ("mlp.gate_proj", (INNER, WIDTH), KINDS.Q5_0),
    "ffn_up": ("mlp.up_proj", (INNER, WIDTH), KINDS.Q5_0),
    "ffn_down": ("mlp.down_proj", (WIDTH, INNER), KINDS.Q6_K),
    "attn_norm": ("input_layernorm", (WIDTH,), KINDS.F32),
    "attn_q_norm": ("self_attn.q_norm", (HEAD_DIM,), KINDS.F32),
    "attn_k_norm": ("self_attn.k_norm", (HEAD_DIM,), KINDS.F32),
    "post_attention_norm": ("post_attention_layernorm", (WIDTH,), KINDS.F32),
    "ffn_norm": ("pre_feedforward_layernorm", (WIDTH,), KINDS.F32),
    "post_ffw_norm": ("post_feedforward_layernorm", (WIDTH,), KINDS.F32),
}
"""A layer's tensors: the name in transformers, the shape, and the type in the real file."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, torch.Tensor]]:
    """A GGUF file of Gemma 3's kind, and the weights that the gguf library reads in it."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    random = np.random.default_rng(0)
    fields = {
        "context_length": 8192, "embedding_length": WIDTH, "block_count": LAYERS,
        "feed_forward_length": INNER, "head_count": HEADS, "head_count_kv": 1,
        "key_length": HEAD_DIM, "value_length": HEAD_DIM, "layer_norm_rms_eps": 1e-6,
        "rope_freq_base": 1e6, "sliding_window": WINDOW, "tokenizer_model": "llama",
        "tokenizer_pre": "default", "token_list": WORDS,
        "token_scores": [-float(number) for number in range(len(WORDS))],
        "token_types": [3] * 5 + [1] * (len(WORDS) - 5), "bos_token_id": 2, "eos_token_id": 1,
        "unk_token_id": 3, "pad_token_id": 0, "add_bos_token": True, "add_space_prefix": False,
        "chat_template": TEMPLATE,
    }  # fmt: skip
    tensors: dict[str, tuple[str, tuple[int, ...], Any]] = {
        "token_embd.weight": ("model.embed_tokens.weight", (len(WORDS), WIDTH), KINDS.Q8_0),
        "output_norm.weight": ("model.norm.weight", (WIDTH,), KINDS.F32),
    }
    for layer in range(LAYERS):
        for name, (theirs, shape, kind) in LAYER.items():
            key = f"blk.{layer}.{name}.weight"
            tensors[key] = (f"model.layers.{layer}.{theirs}.weight", shape, kind)
    weights, written = {}, {}
    for name, (theirs, shape, kind) in tensors.items():
        data = stored_blocks(random, shape, kind)
        written[name] = (data, kind)
        values = torch.from_numpy(np.array(gguf.quants.dequantize(data, kind)))
        weights[theirs] = values - 1 if "norm" in name else values  # Gemma's norms are stored + 1
    write_fields(path, "gemma3", fields, written)
    return path, weights


@pytest.fixture(scope="module")
def target(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> TransformersTarget:
    """`target=gemma3`, of four packages that have that file in parts."""
    content = tiny[0].read_bytes()
    size = -(-len(content) // 4)
    parts = [content[first : first + size] for first in range(0, len(content), size)]
    assert len(parts) == len(gemma3.GEMMA3.members) == 4

    def run(command: list[str], **_: Any) -> Any:
        if command[2] == "pip":
            for member, part in zip(gemma3.GEMMA3.members, parts, strict=True):
                path = Path(command[command.index("--target") + 1]) / member
                path.parent.mkdir(parents=True)
                path.write_bytes(part)
        else:
            assert command[1:3] == ["-m", "outrider.targets.gguf"]
            convert(Path(command[3]), Path(command[4]))
        return SimpleNamespace(returncode=0, stderr="")

    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", run)
        patch.setattr("platformdirs.user_cache_path", lambda name: folder / name)
        known = replace(gemma3.GEMMA3, sha256=sha256(content).hexdigest())
        patch.setattr(gemma3, "GEMMA3", known)
        made = make("target", "gemma3", optimize="none")
    assert isinstance(made, TransformersTarget)
    return made


def test_every_weight_is_the_one_in_the_file(tiny: Any, target: TransformersTarget) -> None:
    state = target.model.state_dict()
    for name, weight in tiny[1].items():
        torch.testing.assert_close(state[name], weight, rtol=0, atol=1e-6, msg=name)
    assert set(state) - set(tiny[1]) == {"lm_head.weight"}  # the embedding's


def test_windows_and_ends_are_those_of_the_file(target: TransformersTarget) -> None:
    config: Any = target.model.config
    assert config.layer_types == ["sliding_attention"] * 5 + ["full_attention"]
    assert config.sliding_window == WINDOW
    assert config.rope_parameters["full_attention"]["rope_theta"] == 1e6
    assert config.rope_parameters["sliding_attention"]["rope_theta"] == 1e4
    assert (target.max_length, target.eos, target.trees) == (8192, {1}, True)


def test_tokenizer_and_chat_template_are_those_of_the_file(target: TransformersTarget) -> None:
    def words(ids: list[int]) -> list[str]:
        return [WORDS[token] for token in ids]

    assert words(target.encode("user on")) == ["<bos>", "u", "s", "e", "r", "▁o", "n"]
    assert words(target.encode("on", chat=True)) == ["u", "s", "e", "r", ":", "▁o", "n"]
