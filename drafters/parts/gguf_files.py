"""Drafters in GGUF files, as llama.cpp's converters write them: EAGLE-3, DFlash, its kin, MTP."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outrider.base.errors import require
from outrider.drafters.parts import checkpoint
from outrider.targets.gguf import converted_once, reader

SUFFIX = ".gguf"

ENTRIES = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.causal": "causal_block",
    "rope.dimension_count": "head_dim",
    "attention.key_length": "head_dim",
    "rope.freq_base": "rope_theta",
    "target_layers": "aux_hidden_state_layer_ids",
    "extract_layers": "aux_hidden_state_layer_ids",  # of the first converters
    "has_confidence_head": "enable_confidence_head",
}
"""What follows `eagle3.` or `dflash.` in a file's metadata, by the names of published configs.

A layer is counted by those below it. Entries that are not listed have the same name in both."""

ROPE = {
    "rope.scaling.type": "rope_type",
    "rope.scaling.factor": "factor",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
}
"""Entries of transformers' `rope_parameters`."""

UNREAD = {"attention.value_length", "vocab_size"}
"""Entries that the tensors say too."""

ROOTS = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "fc": "fc",
    "markov_w1": "markov_w1",
    "markov_w2": "markov_w2",
    "conf_proj": "confidence_head.proj",
    "selector_predecessor": "candidate_selector.predecessor_codebook",
    "selector_successor": "candidate_selector.successor_codebook",
    "selector_hidden": "candidate_selector.hidden_projection",
}
"""Tensors beside the layers."""

PARTS = {
    "attn_norm": "input_layernorm",
    "attn_norm_2": "hidden_norm",
    **{f"attn_{name}": f"self_attn.{name}_proj" for name in "qkv"},
    **{f"attn_{name}_norm": f"self_attn.{name}_norm" for name in "qk"},
    "attn_output": "self_attn.o_proj",
    "attn_conv_base": "attention_conv.base_kernel",
    "attn_conv_proj": "attention_conv.kernel_projection",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "post_attention_layernorm",
    **{f"ffn_{name}": f"mlp.{name}_proj" for name in ("gate", "up", "down")},
    "ffn_conv_base": "mlp_conv.base_kernel",
    "ffn_conv_proj": "mlp_conv.kernel_projection",
    "ffn_gate_inp": "mlp.gate",
    "exp_probs_b": "mlp.gate.e_score_correction_bias",
    **{f"ffn_{name}_exps": f"mlp.experts.{name}_proj" for name in ("gate", "up", "down")},
    **{f"ffn_{name}_shexp": f"mlp.shared_expert.{name}_proj" for name in ("gate", "up", "down")},
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    **{f"nextn.{name}": name for name in ("eh_proj", "enorm", "hnorm", "embed_tokens")},
    "nextn.shared_head_norm": "shared_head.norm",
    "nextn.shared_head_head": "shared_head.head",
}
"""Tensors of a layer."""

SHIFTED = ("qwen3next", "qwen35", "qwen35moe")
"""Models whose norms multiply by 1 + w, and are stored so."""


def folder(file: Path) -> Path:
    """Returns the folder in the user's cache with a file's drafter in a published layout.

    The first call writes it. Matrices in few bits are dequantised.

    Raises:
        ConfigError: the file holds no drafter.
    """

    def write(scratch: Path) -> None:
        config, tensors = read(file)
        checkpoint.write_checkpoint(scratch, tensors, config, torch.float32)

    return converted_once(file, "drafter", write)


def read(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Returns the config and the tensors of a file's drafter, named as in published folders."""
    contents = reader()(file)
    stored = {name: field.contents() for name, field in contents.fields.items()}
    kind = str(stored["general.architecture"])
    prefix = f"{kind}."
    own = {name.removeprefix(prefix): stored[name] for name in stored if name.startswith(prefix)}
    count = int(own.get("nextn_predict_layers", 0))
    is_valid = kind in ("eagle3", "dflash") or count > 0
    expected = "eagle3, dflash, or a model with layers of multi-token prediction"
    require(is_valid, f"{file}: general.architecture", kind, expected)
    first = int(own["block_count"]) - count if count else 0
    tensors = {
        _name(kind, tensor.name): _values(tensor)
        for tensor in contents.tensors
        if not count or _layer(tensor.name) >= first
    }
    if count:
        return {"hidden_size": own["embedding_length"]}, _prediction(kind, tensors)
    if "d2t" in tensors:  # the ids themselves, where published files have their distances
        tensors["d2t"] = tensors["d2t"] - torch.arange(len(tensors["d2t"]))
    config = _config(own, tensors) | {"mask_token_id": stored.get("tokenizer.ggml.mask_token_id")}
    if kind == "eagle3":
        config["eagle_aux_hidden_state_layer_ids"] = config.pop("aux_hidden_state_layer_ids", None)
        for name, heads in (("q", "num_attention_heads"), ("k", "num_key_value_heads")):
            full = f"layers.0.self_attn.{name}_proj.weight"
            pairs = tensors[full].view(config[heads], -1, 2, tensors[full].shape[1])
            tensors[full] = pairs.transpose(1, 2).flatten(0, 2)  # neighbours rotate together there
    return {name: value for name, value in config.items() if value is not None}, tensors


def _config(own: Mapping[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Returns the entries of `config.json`. own: those of the file."""
    config = {
        ENTRIES.get(name, name): value
        for name, value in own.items()
        if name not in (*ROPE, *UNREAD) and not name.startswith("attention.sliding")
    }
    rope = {entry: own[name] for name, entry in ROPE.items() if name in own}
    if rope.get("rope_type", "none") != "none":
        config["rope_parameters"] = {**rope, "rope_theta": config.pop("rope_theta", 1e4)}
    if window := own.get("attention.sliding_window"):
        kinds = ("full_attention", "sliding_attention")
        config["layer_types"] = [kinds[it] for it in own["attention.sliding_window_pattern"]]
        config |= {"sliding_window": window, "use_sliding_window": True, "is_causal": False}
    if "candidate_selector.hidden_projection.weight" in tensors:
        return config | {"architectures": ["DFlash2DraftModel"]}
    if (rows := tensors.get("markov_w1.weight")) is not None:
        config |= {"architectures": ["DSparkDraftModel"], "markov_rank": rows.shape[1]}
        config.setdefault("sample_from_anchor", False)
        head = tensors.get("confidence_head.proj.weight")
        config["enable_confidence_head"] = head is not None
        if head is not None:
            config["confidence_head_with_markov"] = head.shape[1] > config["hidden_size"]
            tensors.setdefault("confidence_head.proj.bias", torch.zeros(1))
    return config


def _prediction(kind: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns tensors of multi-token prediction under DeepSeek's names."""
    found: dict[str, Tensor] = {}
    for name, rows in tensors.items():
        if kind in SHIFTED and name.endswith("norm.weight"):
            rows = rows - 1
        elif name.endswith("shared_expert_gate.weight"):
            rows = rows.reshape(1, -1)
        if not kind.startswith("qwen"):
            name = name.replace(".shared_expert.", ".shared_experts.")
        if ".experts." in name or "e_score" in name:
            name = name.rpartition(".")[0]
        found[f"model.{name}"] = rows
    for name in [name for name in found if name.endswith("experts.gate_proj")]:
        parts = [found.pop(name.replace("gate_proj", part)) for part in ("gate_proj", "up_proj")]
        found[name.replace("gate_proj", "gate_up_proj")] = torch.cat(parts, dim=1)
    return found


def _layer(name: str) -> int:
    """Returns the number of the layer that a tensor belongs to, -1 for none."""
    root, _, rest = name.partition(".")
    return int(rest.partition(".")[0]) if root == "blk" else -1


def _name(kind: str, name: str) -> str:
    """Returns the published name of a tensor; one that is not known here keeps its own."""
    if _layer(name) >= 0:
        _, number, part = name.split(".", 2)
        return f"layers.{number}.{_renamed(part, PARTS)}"
    fused = "hidden_norm" if kind == "dflash" else "input_norm"
    return _renamed(name, ROOTS | {"enc.output_norm": fused})


def _renamed(name: str, table: Mapping[str, str]) -> str:
    part, _, suffix = name.rpartition(".")
    return table.get(name) or (f"{table.get(part, part)}.{suffix}" if part else name)


def _values(tensor: Any) -> Tensor:
    """Returns a tensor of a file in full precision."""
    from gguf import dequantize

    rows = tensor.data
    if not np.issubdtype(rows.dtype, np.signedinteger):
        rows = dequantize(rows, tensor.tensor_type)
    return torch.from_numpy(np.array(rows))
