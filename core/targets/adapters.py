"""A folder that PEFT wrote, read as the model that it adapts with the changes in it."""

from pathlib import Path
from typing import Any

from outrider.base.errors import ConfigError, TargetError
from outrider.base.json_values import json_in

SETTINGS = "adapter_config.json"
"""The file by which such a folder is known."""


def is_adapter(folder: Path) -> bool:
    """Returns whether a folder holds an adapter, and no model."""
    return (folder / SETTINGS).is_file() and not (folder / "config.json").is_file()


def base_of(folder: Path) -> str:
    """Returns the hub id or the folder of the model that an adapter belongs to.

    Raises:
        ConfigError: PEFT is not installed.
        TargetError: the adapter does not name its model.
    """
    try:
        found = json_in(folder / SETTINGS)
    except ValueError as error:
        raise TargetError(f"model={str(folder)!r}: {SETTINGS} is no JSON ({error})") from error
    base = found.get("base_model_name_or_path") if isinstance(found, dict) else None
    if not isinstance(base, str) or not base:
        raise TargetError(f"model={str(folder)!r}: expected base_model_name_or_path in {SETTINGS}")
    try:
        import peft  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"model={str(folder)!r} is an adapter of {base}: it needs: pip install peft"
        ) from error
    return base


def adapted(model: Any, folder: Path) -> Any:
    """Returns the model with an adapter's changes added to its weights, a model of its own kind."""
    from peft import PeftModel  # type: ignore[import-not-found,unused-ignore]

    return PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
