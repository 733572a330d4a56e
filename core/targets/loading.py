"""Loading: a transformers model and its tokenizer, from a hub id or a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from outrider.errors import ConfigError, TargetError, require
from outrider.runtime import launch

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("auto", "float32", "bfloat16", "float16", "float64")


def load(
    place: str, dtype: str, device: str, *, tensor_parallel: bool = False
) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Returns the model and tokenizer at a hub id or in a folder, ready to run.

    tensor_parallel: whether to load but this rank's part of the weights.

    Raises:
        ConfigError: there is nothing at `place`, `dtype` or `device` is unknown, or the model
            can't be spread over so many ranks.
        TargetError: the weights are damaged, or some are missing or of another shape.
    """
    import transformers
    from transformers.utils import logging

    talk: Any = logging

    require(dtype in DTYPES, "dtype", dtype, f"one of {', '.join(DTYPES)}")
    where = _device(device)
    if dtype == "auto" and where.type == "cpu":
        dtype = "float32"
    local = Path(place).expanduser()
    if not local.is_dir() and (place.startswith((".", "/", "~")) or place.count("/") != 1):
        raise ConfigError(
            f"model={place!r}: expected a hub id (owner/name) or a folder that exists"
        )
    shown, level = talk.is_progress_bar_enabled(), talk.get_verbosity()
    talk.set_verbosity_error()  # what it would report of the weights is raised below
    if local.is_dir():
        place = str(local)
        talk.disable_progress_bar()  # it is a matter of a second
    options: dict[str, Any] = {}
    try:
        config: Any = transformers.AutoConfig.from_pretrained(place)
        auto = _auto(config)
        if tensor_parallel:
            from transformers.distributed.configuration_utils import DistributedConfig

            launch.divides(config)
            options["distributed_config"] = DistributedConfig(tp_plan="auto")
        model, report = auto.from_pretrained(
            place, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    except ConfigError:
        raise
    except Exception as error:  # many libraries, each with errors of its own
        line = " ".join(str(error).split())
        raise TargetError(
            f"model={place!r} can't be loaded: {type(error).__name__}: {line}"
        ) from error
    finally:
        talk.set_verbosity(level)
        if shown:
            talk.enable_progress_bar()
    for fault in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, report[fault])):
            raise TargetError(
                f"model={place!r}: {len(names)} {fault.replace('_', ' ')} in its weights,"
                f" such as {names[0]}"
            )
    return (model if tensor_parallel else model.to(where)).eval(), tokenizer


def _auto(config: Any) -> Any:
    """Returns the class of transformers that loads a kind of model."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    auto: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    if type(config) not in auto._model_mapping:
        raise ValueError(f"{type(config).__name__} is of no kind that reads and writes text")
    return auto


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device={name!r}: expected one that is here ({reason})") from error
    return device
