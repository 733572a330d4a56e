"""The tensors of multi-token prediction in published checkpoints, named as in `MTPNetwork`."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outrider.base.errors import ConfigError
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.vocabulary import TENSOR, Vocabulary

DEEPSEEK = {"shared_head.norm.": "norm.", "enorm.": "enorm.", "hnorm.": "hnorm."}
DEEPSEEK |= {"eh_proj.": "eh_proj.", "": "block."}
"""Prefixes that follow `model.layers.61.` in DeepSeek-V3 and GLM-4.5, and those of the network."""

QWEN = {"pre_fc_norm_embedding.": "enorm.", "pre_fc_norm_hidden.": "hnorm.", "fc.": "eh_proj."}
QWEN |= {"norm.": "norm.", "layers.0.": "block."}
"""Prefixes that follow `mtp.` in Qwen3-Next, and those of the network."""

MIMO = {"token_layernorm.": "enorm.", "hidden_layernorm.": "hnorm.", "input_proj.": "eh_proj."}
MIMO |= {"final_layernorm.": "norm.", "": "block."}
"""Prefixes that follow `model.mtp_layers.0.` in MiMo, whose fusion reads the state first."""

SHARED = ("embed_tokens.weight", "shared_head.head.weight")
"""Copies of the target's embeddings and head."""

LAYER = re.compile(r"model\.layers\.(\d+)\.")
EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")


def layouts(layers: int) -> dict[str, dict[str, str]]:
    """Returns what all names begin with, and the prefixes that follow, for so many layers."""
    return {f"model.layers.{layers}.": DEEPSEEK, "mtp.": QWEN, "model.mtp_layers.0.": MIMO}


def target_folder(target: Target) -> Path:
    """Returns the folder of the checkpoint that a target was loaded from.

    Raises:
        ConfigError: it was not loaded from one.
    """
    from transformers.utils.hub import cached_file

    name = str(getattr(target.model.config, "_name_or_path", "") or "")
    if name and not Path(name).is_dir():
        config = cached_file(name, checkpoint.CONFIG, _raise_exceptions_for_missing_entries=False)
        name = "" if config is None else str(Path(config).parent)
    if not name:
        raise ConfigError("drafter.path=None: expected a folder, the target was not read from one")
    return Path(name)


def read(folder: Path, layers: int, size: int) -> tuple[Path, dict[str, Tensor], Vocabulary]:
    """Returns a file of a folder, its tensors of multi-token prediction, and their vocabulary.

    layers: the number of the target's layers; the next one is DeepSeek's and GLM's for prediction.
    size: the size of the target's vocabulary.

    Raises:
        ConfigError: there are none, or a file can't be read.
    """
    keep = partial(_predicts, layers)
    file, tensors, vocabulary = weights.read_tensors(folder, size, keep)
    tensors = dequantised(tensors, checkpoint.read_config(folder))
    for prefix, names in layouts(layers).items():
        fusion = next(old for old, new in names.items() if new == "eh_proj.")
        found: dict[str, Tensor] = {}
        for place, start in _places(prefix, count_layers(tensors, fusion)):
            own = {
                name.removeprefix(start): tensor
                for name, tensor in tensors.items()
                if name.startswith(start)
            }
            stacked = _stacked(checkpoint.replace_prefixes(own, names))
            if names is MIMO:
                halves = stacked["eh_proj.weight"].chunk(2, 1)
                stacked["eh_proj.weight"] = torch.cat(halves[::-1], 1)
            found |= {place + name: tensor for name, tensor in stacked.items()}
        if found:
            return file, found, vocabulary
    raise ConfigError(
        f"drafter.path={str(folder)!r}: expected tensors of multi-token prediction, named"
        f" model.layers.{layers}.*, mtp.* or model.mtp_layers.0.*"
    )


def _predicts(layers: int, name: str) -> bool:
    """Returns whether a tensor is of a layer of multi-token prediction, or names its tokens."""
    layer = LAYER.match(name)
    is_own = int(layer[1]) >= layers if layer else name.startswith(("mtp.", "model.mtp_layers."))
    return name == TENSOR or (is_own and not name.endswith(SHARED))


def count_layers(names: Iterable[str], fusion: str = "eh_proj.") -> int:
    """Returns how many layers some tensors are of. fusion: the name of what begins a layer."""
    return sum(name.endswith(f"{fusion}weight") for name in names)


def _places(prefix: str, layers: int) -> list[tuple[str, str]]:
    """Returns what the names of each layer begin with, in the network and in checkpoints."""
    places = [("", prefix)][:layers]
    for number in range(1, layers):
        following = re.sub(r"\d+", lambda first: str(int(first[0]) + 1), places[-1][1])
        places.append((f"further.{number - 1}.", following))
    return places


def dequantised(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Returns tensors of which some have eight bits and a scale for each block of their entries.

    So are DeepSeek-V3's and later ones, under `NAME_scale_inv`. config: the checkpoint's.
    """
    whole, block = dict(tensors), (config.get("quantization_config") or {}).get("weight_block_size")
    for name in [name for name in tensors if name.endswith("_scale_inv")]:
        own, scale = name.removesuffix("_scale_inv"), whole.pop(name).float()
        for dim, size in enumerate(block or (128, 128)):
            scale = scale.repeat_interleave(size, dim).narrow(dim, 0, whole[own].shape[dim])
        whole[own] = whole[own].float() * scale
    return whole


def published(tensors: Mapping[str, Tensor], layers: int, prefix: str) -> dict[str, Tensor]:
    """Returns the network's tensors by published names, with separate tensors for each expert.

    layers, prefix: of the target, and one of their `layouts`.
    """
    names = {
        place + new: start + old
        for place, start in _places(prefix, count_layers(tensors))
        for old, new in layouts(layers)[prefix].items()
    }
    named: dict[str, Tensor] = {}
    for name, tensor in checkpoint.replace_prefixes(tensors, names).items():
        experts, _, part = name.rpartition(".")
        if part == "gate_up_proj" and experts.endswith(".experts"):
            for number, both in enumerate(tensor):
                gate, up = both.chunk(2)
                named[f"{experts}.{number}.gate_proj.weight"] = gate
                named[f"{experts}.{number}.up_proj.weight"] = up
        elif part == "down_proj" and experts.endswith(".experts"):
            for number, down in enumerate(tensor):
                named[f"{experts}.{number}.down_proj.weight"] = down
        else:
            named[name] = tensor
    return named


def _stacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors with those of all experts stacked, as in transformers' layers."""
    stacked: dict[str, Tensor] = {}
    experts: dict[str, dict[tuple[str, int], Tensor]] = {}
    for name, tensor in tensors.items():
        match = EXPERT.fullmatch(name)
        if match:
            experts.setdefault(match[1], {})[match[3], int(match[2])] = tensor
        else:
            stacked[name] = tensor
    for name, parts in experts.items():
        numbers = sorted({number for _, number in parts})
        if len(parts) == 3 * len(numbers):  # otherwise `load_tensors` reports what is missing
            both = [torch.cat([parts["gate", n], parts["up", n]]) for n in numbers]
            stacked[f"{name}.gate_up_proj"] = torch.stack(both)
            stacked[f"{name}.down_proj"] = torch.stack([parts["down", n] for n in numbers])
    return stacked
