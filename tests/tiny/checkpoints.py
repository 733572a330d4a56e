"""Folders with a network's config and tensors, as others publish them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from outrider.drafters.parts.checkpoint import find_tensors


def write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Writes a checkpoint, and returns the path of its folder."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    own = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    save_file(own, folder / "model.safetensors")
    return str(folder)


def change(
    folder: Path, entries: Mapping[str, Any], tensors: Mapping[str, Tensor | None] | None = None
) -> None:
    """Changes entries of a checkpoint's config, and tensors: None takes one away."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | dict(entries)))
    if tensors:
        file, before = find_tensors(folder)
        file.unlink()
        after = {name: rows for name, rows in (before | dict(tensors)).items() if rows is not None}
        write(folder, config | dict(entries), after)
