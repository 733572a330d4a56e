"""Results of self-tests on disk, each for the same weights, settings and code."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import platformdirs
import torch
from torch import Tensor

from outrider.base.contents import json_in
from outrider.base.folders import write_if_possible
from outrider.base.pretrained import Model
from outrider.plugins.fingerprint import checksum, hash_of, source_hash, versions
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.placement import home, is_offloaded
from outrider.targets.self_test import SelfTest, self_test

CODE = ("outrider.contract", "outrider.decoding", "outrider.targets")
"""The folders of Outrider whose code decides the result, beside that of the engine."""


def results_folder() -> Path:
    """Returns the folder of results: `outrider/self-tests` in the user's cache directory.

    The environment variable OUTRIDER_SELF_TESTS names another.
    """
    given = os.environ.get("OUTRIDER_SELF_TESTS")
    return Path(given or platformdirs.user_cache_path("outrider") / "self-tests")


def stored_self_test(model: Model, start: Sequence[int] = ()) -> SelfTest:
    """Returns what `self_test` does, from the disk if the same model was tested before.

    Use it for models of transformers' own classes: the code of other classes is not in the key.
    Neither refusals nor results of models whose weights are partly elsewhere are kept. With a
    damaged file, or a folder that can't be written, the test simply runs again.

    start: as for `self_test`, which raises the same errors.
    """
    engine = engine_of(model)
    if engine.vouches(model) or engine.spreads or is_offloaded(model):
        return self_test(model, start)
    path = results_folder() / f"{_key(model, start)}.json"
    with suppress(OSError, ValueError, TypeError):  # none is kept, or it can't be read
        return SelfTest(**json_in(path))
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
    module = type(engine_of(model)).__module__
    code = source_hash(*CODE, module.rpartition(".")[0] or module)
    libraries = versions("outrider", "torch", "transformers")
    return hash_of([code, libraries, settings, checksum(_tensors(model))])


def _tensors(model: Model) -> Iterator[tuple[str, Tensor]]:
    """Yields each tensor once, with its name; those of an engine's own layers in plain form."""
    yield from model.named_parameters()
    yield from model.named_buffers()
    for name, module in model.named_modules():
        weight = None if "weight" in module._parameters else getattr(module, "weight", None)
        if isinstance(weight, Tensor):
            yield f"{name}.weight", weight
