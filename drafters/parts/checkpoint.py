"""A folder with a network's tensors and a small config, and checks that they fit the target."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from outrider.base.contents import fault_of, json_in
from outrider.base.errors import ConfigError, message_of
from outrider.base.folders import replacing, write_whole
from outrider.contract.target import Target

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
"""Names the file of each tensor, where weights are in several files."""

CONFIG = "config.json"
MAP = "weight_map"
"""The entry of an index with the files."""

PUBLISHED = (
    "pytorch_model.bin",
    "medusa_lm_head.safetensors",
    "medusa_lm_head.pt",
    "hydra_lm_head.pt",
)
"""Other names of weight files in published checkpoints."""


def write_checkpoint(
    folder: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any], dtype: torch.dtype
) -> None:
    """Writes a folder's tensors and config. dtype: the precision of floating-point tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous().cpu()
        for name, tensor in tensors.items()
    }
    with replacing(folder / WEIGHTS) as scratch:
        save_file(stored, scratch, metadata={"format": "pt"})
    write_whole(folder / CONFIG, json.dumps(dict(config), indent=1) + "\n")


def read_config(folder: Path) -> dict[str, Any]:
    """Returns the contents of a folder's `config.json`; raises `ConfigError` if it has none."""
    path = folder / CONFIG
    if not path.is_file():
        raise ConfigError(f"drafter.path={str(folder)!r}: expected a folder with {CONFIG}")
    try:
        config: dict[str, Any] = dict(json_in(path))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: expected a JSON object ({error})") from error
    return config


Keep = Callable[[str], bool]
"""Says by its name whether a tensor is to be read, which of a large file saves memory."""


def read_tensors(path: Path, keep: Keep = bool) -> dict[str, Tensor]:
    """Returns the tensors in a file, by name. Pickles are read as tensors only, never as code.

    Raises `ConfigError` if the file is missing or damaged, or holds anything but named tensors.
    """
    if not path.is_file():
        raise ConfigError(f"drafter.path: expected a file {str(path)!r}")
    if fault := fault_of(path):
        raise ConfigError(f"{path}: {fault}")
    try:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                names = filter(keep, file.keys())
                return unpacked({name: file.get_tensor(name) for name in names})
        contents = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError) as error:
        raise ConfigError(f"{path} can't be read: {message_of(error)}") from error
    except Exception as error:  # unpickling refuses code with exceptions of many types
        raise ConfigError(f"{path} holds more than tensors: {error}".splitlines()[0]) from error
    if not isinstance(contents, Mapping) or not all(
        isinstance(tensor, Tensor) for tensor in contents.values()
    ):
        raise ConfigError(f"{path}: expected tensors by name")
    return {name: tensor for name, tensor in contents.items() if keep(name)}


def unpacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns tensors, those in full that are kept in few bits, under names such as `NAME:Q5_0`.

    These are matrices in GGUF's blocks of 32 numbers with a scale, as the package's own weights.
    """
    whole = dict(tensors)
    for name in [name for name in tensors if ":" in name]:
        from gguf import GGMLQuantizationType, quants

        own, _, kind = name.partition(":")
        matrix = quants.dequantize(whole.pop(name).numpy(), GGMLQuantizationType[kind])
        whole[own] = torch.from_numpy(matrix)
    return whole


def find_tensors(folder: Path, keep: Keep = bool) -> tuple[Path, dict[str, Tensor]]:
    """Returns the file with a folder's weights, or the index of several, and the tensors in it."""
    for file in (folder / name for name in (WEIGHTS, INDEX, *PUBLISHED)):
        if file.is_file():
            parts, tensors = {file.name}, dict[str, Tensor]()
            if file.name == INDEX:
                parts = {part for name, part in read_index(file).items() if keep(name)}
            for part in sorted(parts):
                tensors |= read_tensors(folder / part, keep)
            return file, tensors
    raise ConfigError(f"drafter.path={str(folder)!r}: expected a folder with {WEIGHTS}")


def read_index(path: Path) -> dict[str, str]:
    """Returns the name of the file of each tensor; raises `ConfigError` for a damaged index."""
    try:
        return {str(name): str(file) for name, file in json_in(path)[MAP].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        line = f"expected the file of each tensor in {MAP!r} ({message_of(error)})"
        raise ConfigError(f"{path}: {line}") from error


def load_tensors(network: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copies tensors of a file into a network; raises `ConfigError` for one that does not fit."""
    own = network.state_dict()
    for name, tensor in own.items():
        if name not in tensors:
            raise ConfigError(f"{path}: tensor {name} is missing")
        if tensors[name].shape != tensor.shape:
            shape, expected = list(tensors[name].shape), list(tensor.shape)
            raise ConfigError(f"{path}: tensor {name} is {shape}: expected {expected}")
    if extra := sorted(set(tensors) - set(own)):
        raise ConfigError(f"{path}: tensor {extra[0]} has no place in the network")
    network.load_state_dict({name: tensors[name].to(own[name].dtype) for name in own})


def replace_prefixes(
    tensors: Mapping[str, Tensor], prefixes: Mapping[str, str]
) -> dict[str, Tensor]:
    """Returns tensors with beginnings of names replaced; the first that matches counts."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for old, new in prefixes.items():
            if name.startswith(old):
                name = new + name.removeprefix(old)
                break
        renamed[name] = tensor
    return renamed


def tokens_of(target: Target) -> dict[str, Any]:
    """Returns the entries of a file's config that say whose tokens it holds."""
    return {"vocab_size": target.vocab_size, "tokenizer": _fingerprint(target)}


def require_same_tokens(setting: str, config: Mapping[str, Any], target: Target) -> None:
    """Raises `ConfigError` unless the tokens of a file are the target's.

    setting, config: the setting that names the file, with its value, and what `tokens_of` gave.
    """
    own, size = _fingerprint(target), target.vocab_size
    saved = config.get("tokenizer")
    if config.get("vocab_size") != size:
        raise ConfigError(
            f"{setting}: its vocabulary has {config.get('vocab_size')} tokens, the target's {size}"
        )
    if own is not None and saved is not None and own != saved:
        raise ConfigError(
            f"{setting}: its texts were cut by another tokenizer than the target's"
            f" (fingerprints {saved} and {own})"
        )


def _fingerprint(target: Target) -> str | None:
    """Returns a hash of the tokens of the target's tokenizer and their ids; None without one."""
    if target.tokenizer is None:
        return None
    entries = json.dumps(sorted(target.tokenizer.get_vocab().items()))
    return hashlib.sha256(entries.encode()).hexdigest()[:16]
