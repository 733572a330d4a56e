"""Drafters in the layouts of the field, and the logits of the libraries that save them.

Run by evidence/interop.py in an environment that has these libraries, and not Outrider:

.venv-interop/bin/python evidence/interop_others.py FOLDER
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from dflash.model import DFlash2DraftModel, DFlashDraftModel
from interop_layouts import ANCHOR, BLOCK, KNOWN, LAYERS, SIZES, WINDOW, main
from safetensors.torch import load_file, save_file
from specforge.modeling.draft import DominoDraftModel, DSparkDraftModel
from transformers import AutoModelForCausalLM, Qwen3Config

BLOCKS = {"mask_token_id": 3, "target_layer_ids": [layer - 1 for layer in LAYERS]}
"""The entries of z-lab's, SpecForge's and NVIDIA's networks."""

MARKOV = {"markov_rank": 256, "markov_head_type": "vanilla"}
SELECTOR = {"selector_rank": 256, "selector_top_k": 16}
SELECTOR |= {"conv_kernel_size": 2, "conv_group_size": 16}
CONFIDENT = {"enable_confidence_head": True, "confidence_head_with_markov": True}
DOMINO = {"emb_dim": 24, "gru_hidden_dim": 40, "pure_draft_prefix_len": 1}


def of_libraries(root: Path) -> None:
    """Writes drafters by z-lab's and SpecForge's own libraries."""
    target = AutoModelForCausalLM.from_pretrained(root / "target-qwen3", dtype=torch.float32)
    inputs = load_file(root / "inputs.safetensors")
    forge = {"confidence_head_alpha": 1.0, **MARKOV, **CONFIDENT}
    both_ways = WINDOW | {"is_causal": False}
    for name, kind, own, entries in (
        ("dflash-of-z-lab", DFlashDraftModel, {}, {}),
        ("dflash-of-z-lab-window", DFlashDraftModel, {}, WINDOW),
        ("dflash2-of-z-lab", DFlash2DraftModel, SELECTOR, {}),
        ("dflash2-of-z-lab-window", DFlash2DraftModel, SELECTOR, both_ways),
        ("dspark-of-SpecForge", DSparkDraftModel, forge, {}),
        ("domino-of-SpecForge", DominoDraftModel, DOMINO, {}),
        ("domino-of-SpecForge-shifted", DominoDraftModel, DOMINO | {"shift_label": True}, {}),
    ):
        config = Qwen3Config(
            **SIZES, head_dim=16, num_hidden_layers=1, num_target_layers=8, block_size=BLOCK,
            dflash_config=BLOCKS | own, **entries,
        )  # fmt: skip
        config._attn_implementation = "sdpa"
        model = kind(config).eval()
        for tensor in model.parameters():
            torch.nn.init.normal_(tensor, std=0.3)
        model.save_pretrained(root / name)
        rows = drafted(model, target, inputs["states"], inputs["tokens"])
        save_file({"0": rows.contiguous()}, root / name / "outputs.safetensors")


@torch.no_grad()
def drafted(model: Any, target: Any, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Returns the logits of a block after the given tokens; -inf for tokens that it excludes."""
    block = torch.full((1, BLOCK), 3)
    block[0, 0] = tokens[0, ANCHOR]
    hidden = model(
        target_hidden=states[:, :ANCHOR],
        noise_embedding=target.model.embed_tokens(block),
        position_ids=torch.arange(ANCHOR + BLOCK)[None],
    )
    before = tokens[:, ANCHOR : ANCHOR + BLOCK]
    if isinstance(model, DFlash2DraftModel):
        selector, hidden = model.candidate_selector, hidden[:, 1:]
        unary, candidates = model.compute_logits(hidden, target.lm_head).topk(selector.top_k)
        pairs = selector.predecessor_codebook(before[:, :-1]) * selector.hidden_projection(hidden)
        scores = unary + (pairs[..., None, :] * selector.successor_codebook(candidates)).sum(-1)
        excluded = torch.full((*hidden.shape[:2], target.config.vocab_size), -torch.inf)
        return excluded.scatter(-1, candidates, scores)[0]
    if isinstance(model, DFlashDraftModel):
        return model.compute_logits(hidden, target.lm_head)[0]
    corrected = model.apply_logits_head(
        target.lm_head(hidden)[:, None],
        prev_token_ids=before[:, None],
        prev_token_embeddings=target.model.embed_tokens(before)[:, None],
        hidden_states=hidden[:, None],
    )
    return corrected[0, 0]


def republish(
    root: Path,
    name: str,
    source: str,
    entries: dict[str, Any],
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes a saved drafter once more, with the entries and names of another layout."""
    folder = root / name
    folder.mkdir()
    tensors = load_file(root / source / "model.safetensors")
    for old, new in renamed.items():
        tensors = {tensor.replace(old, new): rows for tensor, rows in tensors.items()}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(entries))
    (folder / "outputs.safetensors").write_bytes(
        (root / source / "outputs.safetensors").read_bytes()
    )


def republished(root: Path) -> None:
    """Writes the layouts of those that are no libraries here, with the weights of the others."""
    flat = SIZES | {"head_dim": 16, "num_hidden_layers": 1}
    flat |= {"model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-6, "use_cache": True}
    flat |= {"draft_vocab_size": KNOWN, "rope_theta": 10000.0, "rope_scaling": None}
    flat |= {"attention_bias": False, "torch_dtype": "float32", "transformers_version": "4.53.2"}
    layers = {"eagle_aux_hidden_state_layer_ids": LAYERS}
    outputs = {"eagle_aux_hidden_state_layer_ids": [layer - 1 for layer in LAYERS]}
    named = {"eagle_config": outputs | {"use_aux_hidden_state": True}}
    forge = flat | {"architectures": ["LlamaForCausalLMEagle3"], "max_window_layers": 48}
    forge |= {"sliding_window": None, "use_sliding_window": False, "tie_word_embeddings": False}
    angel = forge | {"architectures": ["Eagle3LlamaForCausalLM"]}
    nvidia = flat | {"architectures": ["LlamaForCausalLMEagle3"], "mlp_bias": False}
    nvidia["eagle_config"] = named["eagle_config"] | {
        "use_input_layernorm_in_first_layer": True, "use_last_layernorm": True,
        "use_mtp_layernorm": False, "next_layer_regular": True, "parallel_draft_step": 1,
        "parallel_draft_heads_num_layers": 1,
    }  # fmt: skip
    plain, first = "eagle3-llama", {"layers.0.": "midlayer."}
    republish(root, "eagle3-of-SafeAILab", plain, flat | layers, first)
    republish(root, "eagle3-of-SpecForge", "eagle3-llama-no-layers", forge, first)
    republish(root, "eagle3-of-SpecForge-3.1", f"{plain}-norm_output",
              forge | layers | {"norm_output": True}, first)  # fmt: skip
    republish(root, "eagle3-of-AngelSlim", "eagle3-llama-no-layers", angel, first)
    republish(root, "eagle3-of-NVIDIA", plain, nvidia)
    own = {"target_layer_ids": [layer - 1 for layer in LAYERS]}
    deep = flat | own | {"architectures": ["Qwen3Eagle3Model"], "model_type": "qwen3"}
    deep |= {"ttt_length": 7, "step_loss_decay": 0.8, "draft_num_hidden_layers": 1}
    republish(root, "eagle3-of-DeepSpec", "eagle3-qwen3", deep)
    block = flat | {"model_type": "qwen3", "block_size": BLOCK, "num_target_layers": 8}
    del block["draft_vocab_size"]
    deep = block | BLOCKS | {"architectures": ["Qwen3DSparkModel"], "num_anchors": 512}
    bare = {"markov_rank": 0, "enable_confidence_head": False}  # its DFlash is DSpark without heads
    republish(root, "dflash-of-DeepSpec", "dflash-from-anchor", deep | bare)
    republish(root, "dspark-of-DeepSpec", "dspark", deep | MARKOV | CONFIDENT)
    theirs = {"projector_type": "dspark", "shift_label": True, "use_confidence_head": True}
    theirs = {"dflash_config": BLOCKS | theirs | MARKOV, "architectures": ["DFlashDraftModel"]}
    republish(root, "dspark-of-NVIDIA", "dspark", block | theirs,
              {"markov_head.": "", "confidence_head.proj.": "confidence_proj."})  # fmt: skip
    theirs = {"projector_type": "dflash2", "causal": False, "block_size": BLOCK}
    theirs = {"dflash_config": BLOCKS | theirs | SELECTOR, "architectures": ["DFlash2DraftModel"]}
    republish(root, "dflash2-of-NVIDIA", "dflash2", block | theirs | {"is_causal": False})
    shards(root, "eagle3-llama-in-shards", plain)


def shards(root: Path, name: str, source: str) -> None:
    """Writes a saved drafter once more, in two files and an index."""
    entries = json.loads((root / source / "config.json").read_text())
    republish(root, name, source, entries)
    whole = root / name / "model.safetensors"
    tensors = load_file(whole)
    whole.unlink()
    files = {tensor: f"model-{i % 2}.safetensors" for i, tensor in enumerate(sorted(tensors))}
    for file in set(files.values()):
        part = {tensor: rows for tensor, rows in tensors.items() if files[tensor] == file}
        save_file(part, root / name / file)
    index = root / name / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    main(folder)
    of_libraries(folder)
    republished(folder)
