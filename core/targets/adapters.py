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
        TargetError: the adapter does not name its model, or one that is gone, or the model has its
            layers several times, whose weights can't hold different changes.
    """
    try:
        found = json_in(folder / SETTINGS)
    except ValueError as error:
        raise TargetError(f"model={str(folder)!r}: {SETTINGS} is no JSON ({error})") from error
    base = found.get("base_model_name_or_path") if isinstance(found, dict) else None
    if not isinstance(base, str) or not base:
        raise TargetError(f"model={str(folder)!r}: expected base_model_name_or_path in {SETTINGS}")
    if Path(base).is_absolute() and (not Path(base).exists() or folder.samefile(base)):
        raise TargetError(f"model={str(folder)!r}: there is no {base}, which {SETTINGS} names")
    if found.get("layer_replication"):
        raise TargetError(f"model={str(folder)!r}: {SETTINGS} replicates layers: expected none")
    try:
        import peft  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"model={str(folder)!r} is an adapter of {base}: it needs: pip install peft"
        ) from error
    return base


def adapted(model: Any, folder: Path, size: int) -> Any:
    """Returns the model with an adapter's changes added to its weights, a model of its own kind.

    size: how many tokens the adapter was trained with, which may be more than the model has.

    Raises:
        TargetError: the adapter changes no weights: it is a prompt, or a part beside the layers.
    """
    from peft import PeftModel  # type: ignore[import-not-found,unused-ignore]

    if size > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(size, mean_resizing=False)
    whole = PeftModel.from_pretrained(model, str(folder))
    if not hasattr(whole, "merge_and_unload"):
        raise TargetError(f"model={str(folder)!r}: an adapter without changes of weights")
    return whole.merge_and_unload()
