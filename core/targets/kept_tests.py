"""Kept self-tests: results on disk, read only for the same weights, settings and code."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
import torch
from torch import Tensor

from outrider.folders import write_whole
from outrider.plugins.origin import source_hash
from outrider.runtime.linear import PackedLinear, packing
from outrider.runtime.ranks import is_sharded
from outrider.targets.self_test import SelfTest, is_exempt, self_test

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CODE = ("outrider.contract", "outrider.runtime", "outrider.targets")
"""The folders of Outrider whose code decides the result."""

WORD = 8
"""Bytes are added up as integers of this size."""


def kept_folder() -> Path:
    """Returns the folder of results: `outrider/self-tests` in the user's cache directory."""
    return Path(platformdirs.user_cache_path("outrider")) / "self-tests"


def kept_self_test(model: "PreTrainedModel", start: Sequence[int] = ()) -> SelfTest:
    """Returns what `self_test` does, from the disk if the same model was tested before.

    Use it for models whose class is one of transformers: the code of another is not in the key. A
    refusal is not kept, and nothing is for a model that is spread over ranks. A file that is
    damaged, or a folder that can't be written, only means that the test runs again.

    start: as for `self_test`, which raises the same errors.
    """
    if is_exempt(model) or is_sharded(model):
        return self_test(model, start)
    path = kept_folder() / f"{_key(model, start)}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    result = self_test(model, start)
    _write(path, result)
    return result


def _key(model: "PreTrainedModel", start: Sequence[int]) -> str:
    """Returns a hash of all that decides a result."""
    device = str(model.device.type)
    if device == "cuda":
        device = torch.cuda.get_device_name(model.device)
    settings = [
        f"{type(model).__module__}.{type(model).__qualname__}",
        model.config.to_json_string(),
        [str(getattr(model.config, f"_{name}_implementation", None)) for name in _BACKENDS],
        list(start),
        [str(model.dtype), device, packing(model), model.training],
    ]
    request = [_code(), _versions(), settings, _checksum(model)]
    return hashlib.sha256(json.dumps(request).encode()).hexdigest()


_BACKENDS = ("attn", "experts")


@cache
def _versions() -> list[str]:
    return [version(name) for name in ("outrider", "torch", "transformers")]


def _code() -> str:
    """Returns a hash of Outrider's own sources, which change under an editable install."""
    return source_hash(*CODE)


def _checksum(model: "PreTrainedModel") -> str:
    """Returns a hash of the names, shapes and sums of all tensors, in a single reading of them.

    A cryptographic hash of every byte takes as long as the test. The sum of a tensor's bits shows
    any change but one that was made to hide.
    """
    digest = hashlib.sha256()
    for name, tensor in _tensors(model):
        data = tensor.detach().contiguous().view(-1).view(torch.uint8)
        if data.storage_offset() % WORD:
            data = data.clone()
        whole = len(data) // WORD * WORD
        total = int(data[:whole].view(torch.int64).sum()) + int(data[whole:].sum())
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {total}\n".encode())
    return digest.hexdigest()


def _tensors(model: "PreTrainedModel") -> Iterator[tuple[str, Tensor]]:
    """Yields each tensor once, with its name; packed ones in their plain form."""
    yield from model.named_parameters()
    yield from model.named_buffers()
    for name, module in model.named_modules():
        if isinstance(module, PackedLinear):
            yield f"{name}.weight", module.weight


def _read(path: Path) -> SelfTest | None:
    """Returns a kept result; None if there is none that can be read."""
    try:
        return SelfTest(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, result: SelfTest) -> None:
    """Keeps a result, in one step: nobody reads half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(result)))
    except OSError:
        return  # a full disk or a folder of someone else's costs a test at each load
