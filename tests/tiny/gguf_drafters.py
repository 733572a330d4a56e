"""Drafters in GGUF files, named and turned as llama.cpp's converters do, and their comparison."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quants
from torch import Tensor

from outrider.testing.tiny_targets import draft_after
from tiny.drafters import bound
from tiny.published import TEXT

LAYER = {
    "input_layernorm": "attn_norm", "hidden_norm": "attn_norm_2", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.up_proj": "ffn_up",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "eh_proj": "nextn.eh_proj",
    "enorm": "nextn.enorm", "hnorm": "nextn.hnorm", "shared_head.norm": "nextn.shared_head_norm",
    "shared_head.head": "nextn.shared_head_head", "embed_tokens": "nextn.embed_tokens",
    "attention_conv.kernel_projection": "attn_conv_proj",
    "mlp_conv.kernel_projection": "ffn_conv_proj",
    **{f"mlp.shared_expert{s}.{p}_proj": f"ffn_{p}_shexp" for s in ("", "s")
       for p in ("gate", "up", "down")},
}  # fmt: skip
BARE = {
    "attention_conv.base_kernel": "attn_conv_base", "mlp_conv.base_kernel": "ffn_conv_base",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias", "mlp.experts.down_proj":
    "ffn_down_exps.weight", "mlp.experts.gate_proj": "ffn_gate_exps.weight",
    "mlp.experts.up_proj": "ffn_up_exps.weight",
}  # fmt: skip
ROOT = {
    "norm": "output_norm", "lm_head": "output", "embed_tokens": "token_embd",
    "hidden_norm": "enc.output_norm", "input_norm": "enc.output_norm",
    "confidence_head.proj": "conf_proj", "markov_head.markov_w1": "markov_w1",
    "markov_head.markov_w2": "markov_w2", "candidate_selector.hidden_projection": "selector_hidden",
    "candidate_selector.predecessor_codebook": "selector_predecessor",
    "candidate_selector.successor_codebook": "selector_successor",
}  # fmt: skip
"""The names that llama.cpp's tables give to published ones, before the last part."""


def theirs(name: str, prefix: str) -> str:
    """Returns the name of a published tensor in a file. prefix: what layers' names begin with."""
    part, _, suffix = name.rpartition(".")
    if not name.startswith(prefix):
        return f"{ROOT.get(part, part)}.{suffix}" if part else name
    layer, _, inner = name.removeprefix(prefix).partition(".")
    part = inner.rpartition(".")[0]
    return f"blk.{layer}.{BARE.get(inner) or f'{LAYER[part]}.{suffix}'}"


def neighbours(rows: Tensor, heads: int) -> Tensor:
    """Returns a projection with the rows that rotate together side by side, as Llama's are."""
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def save(file: Path, kind: str, entries: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Writes a file, with matrices in bfloat16 where the name of the file says so."""
    writer = GGUFWriter(file, kind)
    for name, value in entries.items():
        full = name if "." in name and name.startswith("tokenizer") else f"{kind}.{name}"
        if isinstance(value, list):
            writer.add_array(full, value)
        elif isinstance(value, bool):
            writer.add_bool(full, value)
        elif isinstance(value, float):
            writer.add_float32(full, value)
        else:
            writer.add_uint32(full, value)
    for name, tensor in tensors.items():
        rows = tensor.detach().contiguous().numpy()
        if "bf16" in file.name and rows.ndim > 1:
            packed = quants.quantize(rows, GGMLQuantizationType.BF16)
            writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(name, np.array(rows))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(file)


SIZES = {
    "embedding_length": 16, "feed_forward_length": 24, "attention.head_count": 4,
    "attention.head_count_kv": 2, "context_length": 64,
}  # fmt: skip


def assert_same_drafts(
    drafter: Any, target: Any, folder: Path, contents: tuple[str, dict[str, Any], dict[str, Tensor]]
) -> None:
    """Asserts that files of two precisions draft as a published folder does.

    contents: the kind of model, the entries and the tensors of the files.
    """
    right = draft_after(bound(drafter(path=str(folder)), target), target, TEXT, 4, seed=1)
    assert len(right) >= 3
    for precision, near in (("f32", 1e-6), ("bf16", 0.02)):
        file = save(folder / f"{precision}.gguf", *contents)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
            draft = draft_after(bound(drafter(path=file), target), target, TEXT, 4, seed=1)
        assert draft.tokens == right.tokens
        for probs, exact in zip(draft.probs, right.probs, strict=True):
            torch.testing.assert_close(probs, exact, rtol=0, atol=near)
