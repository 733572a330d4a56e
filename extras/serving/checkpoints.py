"""Students and layers for multi-token prediction as whole checkpoints, which engines read."""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from outrider.base.errors import ConfigError, require
from outrider.base.folders import write_whole
from outrider.contract.target import Target
from outrider.drafters.mtp import tensors as mtp_tensors
from outrider.drafters.mtp.drafter import MtpNetwork
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import student, weights

LAYER, REST = "mtp.safetensors", "target.safetensors"
"""The file of the layer, and that of a target whose weights were in one file."""

NEXTN = "num_nextn_predict_layers"
COUNTS = {"deepseek_v3": NEXTN, "glm4_moe": NEXTN, "qwen3_next": NEXTN}
COUNTS |= dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text"), "mtp_num_hidden_layers")
"""The kinds of targets whose layers engines read, and the config's entry for their number."""


def write_small_model(path: Path, target: Target, folder: Path) -> None:
    """Writes a student with the target's embeddings and head, so that engines can load it."""
    model: Any = student.read_student(path, target)
    model.set_output_embeddings(target.model.get_output_embeddings())  # all rows, for vLLM
    _save(model, target, folder)


@torch.no_grad()
def write_parallel_model(path: Path, target: Target, folder: Path) -> None:
    """Writes a student that drafts in parallel as AMD's PARD models are published.

    They have as many tokens as the target, which vLLM insists on, and their config's `pard_token`
    is one that texts don't have. So the mask's embedding replaces that of such a token. The head
    stays the target's, and is no longer tied to the embeddings.

    Raises `ConfigError` if the target's tokenizer has no token to spare.
    """
    model: Any = student.read_student(path, target)
    *known, mask = model.get_input_embeddings().weight.split([target_rows(target), 1])
    table, place = known[0].clone(), spare_token(target)
    table[place] = mask[0]
    model.set_input_embeddings(
        nn.Embedding(len(table), table.shape[1], _weight=table, _freeze=True)
    )
    head = nn.Linear(table.shape[1], len(table), bias=False, device="meta")
    head.weight = nn.Parameter(target.model.get_output_embeddings().weight.detach().clone())
    model.set_output_embeddings(head)
    model.config.tie_word_embeddings = False
    model.config.update({student.MASK_ID: place})
    _save(model, target, folder)


def _save(model: Any, target: Target, folder: Path) -> None:
    delattr(model.config, student.MARK)  # its tables are its own now
    model.save_pretrained(folder)
    if target.tokenizer is not None:
        target.tokenizer.save_pretrained(folder)


def target_rows(target: Target) -> int:
    """Returns the number of rows of the target's embeddings, which may be more than its tokens."""
    return int(target.model.get_input_embeddings().weight.shape[0])


def spare_token(target: Target) -> int:
    """Returns a token that texts don't have: one that no text is encoded to, or a special one.

    Raises `ConfigError` if there is none, or the target has no tokenizer.
    """
    tokenizer: Any = target.tokenizer
    if tokenizer is not None:
        known = set(tokenizer.get_vocab().values())
        outside = [token for token in range(target_rows(target)) if token not in known]
        if outside:
            return outside[0]
        used = {tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id, *target.eos}
        special = [
            token
            for token, added in tokenizer.added_tokens_decoder.items()
            if added.special
            and token not in used
            and str(added.content) not in str(tokenizer.chat_template)
        ]
        if special:
            return int(max(special))
    raise ConfigError(
        "drafter pard: expected a target whose tokenizer has a token to spare for the mask, as vLLM"
        " takes no model with more tokens than the target"
    )


def write_stitched(network: MtpNetwork, target: Target, folder: Path) -> None:
    """Writes a target's checkpoint with a layer that was trained for it, in place of its own.

    The layer has the names that the target's kind is published with, so that transformers, vLLM and
    SGLang read it with the target. All other tensors are copied as they are.

    Raises `ConfigError` if the engines have no such layer for this kind of target, or its
    checkpoint is not in safetensors.
    """
    kind = target.model.config.get_text_config().model_type
    if kind not in COUNTS:
        known = ", ".join(COUNTS)
        raise ConfigError(
            f"target: engines have no layer for multi-token prediction of {kind}: expected {known}"
        )
    source = mtp_tensors.target_folder(target)
    files = _files(source)
    tensors = _named(network, target, kind)
    parts = next(iter(tensors)).split(".")
    prefix = ".".join(parts[: 3 if parts[0] == "model" else 1]) + "."
    old = {name for name in files if name.startswith(prefix)}  # the target's own layers for it
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and path.suffix not in {".safetensors", ".bin", ".pth"}:
            shutil.copyfile(path, folder / path.name)
    placed = dict.fromkeys(tensors, LAYER)
    for path in sorted(set(files.values())):
        name = REST if path.name == checkpoint.WEIGHTS else path.name
        inside = [key for key, file in files.items() if file == path]
        _copy(path, folder / name, drop=old & set(inside))
        placed |= dict.fromkeys([key for key in inside if key not in old], name)
    save_file(tensors, folder / LAYER, metadata={"format": "pt"})
    index = {"metadata": {}, checkpoint.MAP: placed}
    write_whole(folder / checkpoint.INDEX, json.dumps(index, indent=1) + "\n")
    config = checkpoint.read_config(folder)
    config.get("text_config", config)[COUNTS[kind]] = 1 + len(network.further)
    write_whole(folder / checkpoint.CONFIG, json.dumps(config, indent=1) + "\n")


def _files(folder: Path) -> dict[str, Path]:
    """Returns the file of each tensor of a checkpoint, by name."""
    index, whole = folder / checkpoint.INDEX, folder / checkpoint.WEIGHTS
    if index.is_file():
        return {name: folder / file for name, file in checkpoint.read_index(index).items()}
    require(whole.is_file(), "target", str(folder), f"a folder with {whole.name} or {index.name}")
    with safe_open(whole, framework="pt") as file:
        return dict.fromkeys(file.keys(), whole)


def _named(network: MtpNetwork, target: Target, kind: str) -> dict[str, Tensor]:
    """Returns the layer's tensors by the names of a kind of targets."""
    layers = int(target.model.config.get_text_config().num_hidden_layers)
    is_qwen = kind.startswith("qwen")
    prefix = "mtp." if is_qwen else f"model.layers.{layers}."
    tensors: dict[str, Any] = mtp_tensors.published(network.state_dict(), layers, prefix)
    if not is_qwen:  # as they are published, with copies of the target's tables
        words, head = (prefix + name for name in mtp_tensors.SHARED)
        tensors |= {words: weights.embedding(target), head: weights.head(target)}
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}


def _copy(source: Path, goal: Path, drop: Collection[str]) -> None:
    if not drop:
        shutil.copyfile(source, goal)
        return
    kept = {name: tensor for name, tensor in load_file(source).items() if name not in drop}
    save_file(kept, goal, metadata={"format": "pt"})
