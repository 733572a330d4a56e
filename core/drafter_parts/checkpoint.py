"""Checkpoints: the tensors of a drafter and a small config, refused by name where they don't fit."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from outrider.errors import ConfigError

WEIGHTS = "model.safetensors"
CONFIG = "config.json"


def save(
    folder: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any], dtype: torch.dtype
) -> None:
    """Writes a folder with `model.safetensors` and `config.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous().cpu()
        for name, tensor in tensors.items()
    }
    save_file(stored, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(dict(config), indent=1) + "\n")


def read_config(folder: Path) -> dict[str, Any]:
    """Returns what `config.json` says.

    Raises:
        ConfigError: there is no such file, or it is no JSON object.
    """
    place = folder / CONFIG
    if not place.is_file():
        raise ConfigError(f"drafter.path={str(folder)!r}: expected a folder with {CONFIG}")
    try:
        config: dict[str, Any] = dict(json.loads(place.read_text()))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{place}: expected a JSON object ({error})") from error
    return config


def read_tensors(place: Path) -> dict[str, Tensor]:
    """Returns the tensors of a file, by name. Pickles are read as tensors alone, never as code.

    Raises:
        ConfigError: it is missing or damaged, or holds something else than tensors.
    """
    if not place.is_file():
        raise ConfigError(f"drafter.path: expected a file {str(place)!r}")
    try:
        if place.suffix == ".safetensors":
            return load_file(place)
        held = torch.load(place, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError) as error:
        raise ConfigError(f"{place} can't be read: {' '.join(str(error).split())}") from error
    except Exception as error:  # what unpickling refuses, by whatever name
        raise ConfigError(f"{place} holds more than tensors: {error}".splitlines()[0]) from error
    if not isinstance(held, Mapping) or not all(isinstance(each, Tensor) for each in held.values()):
        raise ConfigError(f"{place}: expected tensors by name")
    return dict(held)


def fill(module: nn.Module, tensors: Mapping[str, Tensor], place: Path) -> None:
    """Puts tensors into a network, in the network's own precision.

    Raises:
        ConfigError: a tensor is missing, is one too many, or has another shape.
    """
    own = module.state_dict()
    for name, tensor in own.items():
        if name not in tensors:
            raise ConfigError(f"{place}: tensor {name} is missing")
        if tensors[name].shape != tensor.shape:
            found, right = (list(each.shape) for each in (tensors[name], tensor))
            raise ConfigError(f"{place}: tensor {name} is {found}: expected {right}")
    if extra := sorted(set(tensors) - set(own)):
        raise ConfigError(f"{place}: tensor {extra[0]} has no place in the network")
    module.load_state_dict({name: tensors[name].to(own[name].dtype) for name in own})


def tensors_in(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """Returns the file of a folder that holds its tensors, and these.

    Raises:
        ConfigError: there is none, or what `read_tensors` raises.
    """
    for name in (WEIGHTS, "pytorch_model.bin", "medusa_lm_head.safetensors", "medusa_lm_head.pt"):
        if (folder / name).is_file():
            return folder / name, read_tensors(folder / name)
    raise ConfigError(f"drafter.path={str(folder)!r}: expected a folder with {WEIGHTS}")


def renamed(tensors: Mapping[str, Tensor], prefixes: Mapping[str, str]) -> dict[str, Tensor]:
    """Returns the tensors with the beginnings of their names replaced."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for old, new in prefixes.items():
            if name.startswith(old):
                name = new + name.removeprefix(old)
                break
        found[name] = tensor
    return found
