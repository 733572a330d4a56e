"""Where other engines find a target's weights: a folder or a hub id."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.base.errors import ConfigError
from outrider.plugins.parts import factory_of
from outrider.targets import gguf
from outrider.targets.loading import GGUF
from outrider.targets.smollm2 import folder, smollm2


def weights_location(config: Mapping[str, Any]) -> str:
    """Returns the folder or hub id of a run's target, by the run's settings.

    Raises `ConfigError` if the target is of a kind that other engines can't load.
    """
    target = dict(config["target"])
    if factory_of(target) is smollm2:
        return str(folder())
    model = target.get("model")
    if not isinstance(model, str):
        raise ConfigError("target: expected smollm2 or transformers, which peers can load too")
    return as_folder(model, target["dtype"])


def as_folder(model: str, dtype: str) -> str:
    """Returns a model as others can load it: a GGUF file as the folder that it is converted into.

    dtype: the precision in which Outrider loads it.
    """
    file = gguf_file(model)
    if file is None:
        return model
    return gguf.converted_folder(file, "float32" if dtype == "auto" else dtype)[0]


def gguf_file(model: Any) -> Path | None:
    """Returns the GGUF file that a model's name is, or None."""
    file = Path(model).expanduser() if isinstance(model, str) else Path()
    return file if file.suffix == GGUF and file.is_file() else None
