"""Results of self-tests on disk, each for the same weights, settings and code."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import platformdirs
import torch
from torch import Tensor

from outrider.base.folders import write_if_possible
from outrider.base.json_values import json_in
from outrider.base.pretrained import Model
from outrider.plugins.code_version import source_hash
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.placement import home, is_offloaded
from outrider.targets.self_test import SelfTest, is_exempt, self_test
from outrider.targets.weight_files import plain_parts

CODE = ("outrider.contract", "outrider.decoding", "outrider.targets")
"""The folders of Outrider whose code decides the result, beside that of the engine."""

WORD = 8
"""The bytes of the integers that a checksum adds up."""


def kept_folder() -> Path:
    """Returns the folder of results: `outrider/self-tests` in the user's cache directory.

    The environment variable OUTRIDER_SELF_TESTS names another.
    """
    given = os.environ.get("OUTRIDER_SELF_TESTS")
    return Path(given or platformdirs.user_cache_path("outrider") / "self-tests")


def kept_self_test(model: Model, start: Sequence[int] = ()) -> SelfTest:
    """Returns what `self_test` does, from the disk if the same model was tested before.

    Use it for models of transformers' own classes: the code of other classes is not in the key.
    Neither refusals nor results of models whose weights are partly elsewhere are kept. With a
    damaged file, or a folder that can't be written, the test simply runs again.

    start: as for `self_test`, which raises the same errors.
    """
    if is_exempt(model) or engine_of(model).spreads or is_offloaded(model):
        return self_test(model, start)
    path = kept_folder() / f"{_key(model, start)}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    result = self_test(model, start)
    write_if_possible(path, json.dumps(asdict(result)))
    return result


def _key(model: Model, start: Sequence[int]) -> str:
    """Returns a hash of all that decides a result."""
    device = home(model).type
    if device == "cuda":
        device = torch.cuda.get_device_name(home(model))
    settings = [
        f"{type(model).__module__}.{type(model).__qualname__}",
        model.config.to_json_string(),
        [
            str(getattr(model.config, f"_{name}_implementation", None))
            for name in ("attn", "experts")
        ],
        list(start),
        [str(model.dtype), device, engine_of(model).layout(model), model.training],
    ]
    versions = [version(name) for name in ("outrider", "torch", "transformers")]
    module = type(engine_of(model)).__module__
    code = source_hash(*CODE, module.rpartition(".")[0] or module)
    request = [code, versions, settings, _checksum(model)]
    return hashlib.sha256(json.dumps(request).encode()).hexdigest()


def _checksum(model: Model) -> str:
    """Returns a hash of the names, shapes and sums of all tensors, in a single reading of them.

    A cryptographic hash of every byte would take as long as the test. The sum of a tensor's bits
    reveals any change that was not made to be hidden.
    """
    digest = hashlib.sha256()
    for name, tensor in _tensors(model):
        data = tensor.detach().contiguous().view(-1).view(torch.uint8)
        if data.storage_offset() % WORD:
            data = data.clone()
        aligned = len(data) // WORD * WORD
        total = int(data[:aligned].view(torch.int64).sum()) + int(data[aligned:].sum())
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total}\n".encode())
    return digest.hexdigest()


def _tensors(model: Model) -> Iterator[tuple[str, Tensor]]:
    """Yields each tensor once, with its name; those of an engine's own layers in plain form."""
    for tensors in (model.named_parameters(), model.named_buffers()):
        for name, tensor in tensors:
            yield from plain_parts(name, tensor)
    for name, module in model.named_modules():
        weight = None if "weight" in module._parameters else getattr(module, "weight", None)
        if isinstance(weight, Tensor):
            yield f"{name}.weight", weight


def _read(path: Path) -> SelfTest | None:
    """Returns a kept result; None if there is none, or it can't be read."""
    try:
        return SelfTest(**json_in(path))
    except (OSError, ValueError, TypeError):
        return None
