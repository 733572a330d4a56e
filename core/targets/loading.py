"""A transformers model and its tokenizer, from a hub id, a folder or a GGUF file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch

from outrider.base.bounds import checked
from outrider.base.errors import ConfigError, OutriderError, TargetError, message_of, require
from outrider.base.pretrained import TRUST, Model, Tokenizer, read_pretrained
from outrider.base.terminal import is_quiet, remark
from outrider.base.waiting import steps
from outrider.plugins.registry import installed
from outrider.targets import gguf
from outrider.targets.passes.engine import Engine
from outrider.targets.stored import load_stored
from outrider.targets.weight_files import (
    adapted,
    base_of,
    check_files,
    is_adapter,
    read_ahead,
    weight_files,
)

Dtype = Literal["auto", "float32", "bfloat16", "float16", "float64"]
"""How numbers are kept; see `torch`."""

GGUF = ".gguf"
"""How the name of a GGUF file ends."""

TOKENIZERS = ("*token*", "vocab*", "*.model", "*.spm", "tekken*")
"""How files of tokenizers are named."""


@checked()
def load(
    name: str,
    dtype: Dtype,
    device: str,
    spread: Engine | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    stored_as: str = "",
) -> tuple[Model, Tokenizer]:
    """Returns the model and tokenizer of a hub id, a folder or a GGUF file, ready to run.

    The weights of a GGUF file are dequantised, and those of an adapter's folder are added to its
    model's; a line says so.

    spread: the engine that loads only this process's part of the weights, if there is one.
    options: further ones of transformers' `from_pretrained`; a `device_map` replaces `device`.
    stored_as: the setting by which the weights of a GGUF file stay as they are, as `load_stored`
        returns them for an engine. By default they are dequantised.

    Raises:
        ConfigError: there is no such model, `dtype` or `device` is unknown, or the number of ranks
            does not divide the model's heads.
        TargetError: the weights are damaged, or some are missing or of another shape.
    """
    from transformers.utils.import_utils import is_accelerate_available

    torch_device = _device(device)
    if dtype == "auto" and torch_device.type == "cpu":
        dtype = "float32"
    folder = Path(name).expanduser()
    is_local = folder.is_dir() or (folder.is_file() and folder.suffix == GGUF)
    if not is_local and (name.startswith((".", "/", "~")) or name.count("/") != 1):
        known = name in installed().of("target")
        raise ConfigError(
            f"model={name!r}: expected a hub id (owner/name), or a folder or GGUF file that exists"
            + (f"; target={name} is a target of its own" if known else "")
        )
    if is_local:
        name = str(folder)
        require(folder.is_dir() or spread is None, "model", name, "a folder to be spread")
    try:
        with _quiet(downloads=not is_local and not is_quiet()):
            options = dict(options or {})
            # Onto the device at once, where transformers can: that takes accelerate.
            if spread is None and is_accelerate_available():
                options = {"device_map": {"": torch_device}} | options
            model, tokenizer = _from_pretrained(name, dtype, spread, options, stored_as)
            if spread is None and "device_map" not in options:
                model = model.to(torch_device)
    except OutriderError:
        raise
    except Exception as error:  # many libraries, each with errors of its own
        asked = _asked_in(folder, error) if isinstance(error, KeyError) else None
        line = asked or f"{type(error).__name__}: {message_of(error)}"
        raise TargetError(f"model={name!r} can't be loaded: {line}") from error
    return model.eval(), tokenizer


def unpacked(model: Any, tokenizer: Any = None, field: str = "target.model") -> tuple[Model, Any]:
    """Returns a loaded model and its tokenizer, None if there is none.

    model: the model, it and its tokenizer as a pair, or a pipeline of transformers with both.
    field: what it was given as, for messages.

    Raises `ConfigError` if it is none of these.
    """
    given = model
    if isinstance(model, list | tuple) and len(model) == 2:
        model, tokenizer = model
    elif not hasattr(model, "config") and hasattr(model, "tokenizer"):
        model, tokenizer = getattr(model, "model", None), model.tokenizer
    is_model = isinstance(model, torch.nn.Module) and hasattr(model, "config")
    name = f"{field}={given if isinstance(given, int | float) else type(given).__name__}"
    if not is_model:
        expected = "a name, a loaded model, or (model, tokenizer)"
        raise ConfigError(f"{name}: expected {expected}")
    if not (tokenizer is None or (callable(tokenizer) and hasattr(tokenizer, "decode"))):
        kind = type(tokenizer).__name__
        raise ConfigError(f"{name}: expected a tokenizer beside the model, not a {kind}")
    return model, tokenizer


def _from_pretrained(
    name: str, dtype: str, spread: Engine | None, options: dict[str, Any], stored_as: str = ""
) -> tuple[Any, Any]:
    """Returns the model and the tokenizer; raises `TargetError` for weights that do not fit."""
    from transformers import AutoConfig, AutoTokenizer

    folder, trust = Path(name), {TRUST: bool(options.get(TRUST))}
    check_files(folder)
    if stored_as:
        return load_stored(folder, stored_as)
    if trust[TRUST]:
        remark(f"{name}: code that comes with it may run ({TRUST}=true)")
    if folder.is_file():
        name, precision = gguf.converted_folder(folder, "float32" if dtype == "auto" else dtype)
        remark(f"{folder.name}: its weights were of {precision}, and are dequantised")
    if is_adapter(folder):
        base = base_of(folder)
        model, tokenizer = _from_pretrained(base, dtype, spread, options)
        remark(f"{name} is an adapter, added to {base}")
        is_own = (folder / "tokenizer_config.json").is_file()
        tokenizer = read_pretrained(AutoTokenizer, name, **trust) if is_own else tokenizer
        return adapted(model, folder, len(tokenizer) * is_own), tokenizer
    read_ahead(weight_files(name))
    config = read_pretrained(AutoConfig, name, **trust)
    auto_model = _auto_model(config, **trust)
    has_tokenizer = any(any(Path(name).glob(pattern)) for pattern in TOKENIZERS)
    expected = "files of a tokenizer in it, such as tokenizer.json"
    require(has_tokenizer or not Path(name).is_dir(), "model", name, expected)
    if spread is not None:
        options = options | spread.load_options(config)
    options = options | {"output_loading_info": True, "ignore_mismatched_sizes": True}
    model, report = read_pretrained(auto_model, name, dtype=dtype, **options)
    for fault in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, report[fault])):
            raise TargetError(
                f"model={name!r}: {len(names)} {fault.replace('_', ' ')} in its weights,"
                f" such as {names[0]}"
            )
    return model, read_pretrained(AutoTokenizer, name, **trust)


def _asked_in(folder: Path, error: KeyError) -> str | None:
    """Returns which file of a model asks for what transformers does not know; None if none does."""
    key = str(error.args[0]) if error.args else ""
    for file in sorted(folder.glob("*.json")):
        if key and f'"{key}"' in file.read_text(encoding="utf-8", errors="replace"):
            return f"transformers does not know {key!r}, which {file.name} asks for"
    return None


@contextmanager
def _quiet(*, downloads: bool) -> Iterator[None]:
    """Keeps transformers from reporting what `load` raises itself, and from bars of its own.

    downloads: whether to leave those of downloads on, if they are.
    """
    from transformers.utils import logging

    log: Any = logging
    had_progress, level = log.is_progress_bar_enabled(), log.get_verbosity()
    log.set_verbosity_error()
    if not downloads:
        log.disable_progress_bar()
    # Nearly all bars of transformers go through a list.
    hook = log.set_tqdm_hook(lambda bar, args, options: steps(args[0]) if args else bar(**options))
    try:
        yield
    finally:
        log.set_tqdm_hook(hook)
        log.set_verbosity(level)
        if had_progress:
            log.enable_progress_bar()


def _auto_model(config: Any, *, trust_remote_code: bool) -> Any:
    """Returns the class of transformers that loads models of a config's kind, or its own code."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    has_own = trust_remote_code and auto.__name__ in getattr(config, "auto_map", {})
    if type(config) not in auto._model_mapping and not has_own:
        raise ValueError(f"{type(config).__name__} is of no kind that reads and writes text")
    return auto


def _device(name: str) -> torch.device:
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        return torch.device("cpu") if accelerator is None else accelerator
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device={name!r}: expected one that is here ({reason})") from error
    return device
