"""How the processes that torchrun has started meet, and which models they can share."""

import math
import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from outrider.base.errors import ConfigError, OutriderError, TargetError, message_of, require
from outrider.extras.ranks.torchrun import FIELD, LOST, rank, world
from outrider.plugins.config import build, compose
from outrider.plugins.hookspecs import Command
from outrider.plugins.registry import installed

TIMEOUT = timedelta(minutes=10)
"""How long a rank may take for its part of a pass. A rank that died is noticed at once."""


def join() -> None:
    """Connects to the other ranks, before the model is loaded.

    Raises `ConfigError` if there are no others, or a model is already spread over them.
    """
    expected = "two processes or more, started by torchrun --nproc-per-node N -m outrider"
    require(world() > 1, FIELD, True, expected)
    is_first = not distributed.is_initialized()
    require(is_first, FIELD, True, "one model, another is spread over the ranks")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with reaching():
        distributed.init_process_group(timeout=TIMEOUT)


MISPLANNED = ("hrm_text",)
"""Types of models whose logits are others once transformers has spread them over ranks."""


def require_fit(config: Any) -> None:
    """Raises `ConfigError` unless a model is a decoder that the ranks can share.

    They have to divide its heads, and transformers has to spread its type rightly.
    """
    is_decoder = not config.is_encoder_decoder
    require(is_decoder, FIELD, True, f"a decoder, {config.model_type} has an encoder")
    if config.model_type in MISPLANNED:
        raise ConfigError(
            f"{FIELD}=True: transformers does not spread {config.model_type} rightly over ranks:"
            " expected another model"
        )
    config = config.get_text_config()
    heads = int(config.num_attention_heads)
    narrow = int(getattr(config, "num_key_value_heads", None) or heads)
    if world() > 1 and math.gcd(heads, narrow) % world():
        fit = [n for n in range(2, heads + 1) if math.gcd(heads, narrow) % n == 0]
        raise ConfigError(
            f"{FIELD}=True: {world()} ranks don't divide {heads} heads and {narrow} of keys and"
            f" values: expected {' or '.join(map(str, fit)) or 'no'} ranks for this model"
        )


@contextmanager
def reaching() -> Iterator[None]:
    """Turns any error of the connection to another rank into a `TargetError`."""
    try:
        yield
    except RuntimeError as error:
        line = message_of(error)
        if not isinstance(error, distributed.DistError) and "gloo" not in line:
            raise
        # Without the location in gloo's code and its guess at the cause.
        line = re.sub(r"^\[\S+\] | This is typically .*", "", line)
        LOST.set()
        others = "rank 0" if rank() else "another rank"
        raise TargetError(f"{FIELD}: {others} is gone or does not answer ({line})") from error


@contextmanager
def on_each_rank(command: Command, arguments: Sequence[str]) -> Iterator[None]:
    """Returns to the first rank alone; the others end here, with it.

    Raises:
        ConfigError: the command, or a setting, is for one process, or the target is not spread.
        TargetError: torchrun stops this rank.
    """
    signal.signal(signal.SIGTERM, _on_sigterm)
    if rank() == 0:
        _checked(command, arguments)
        yield
        return
    try:
        build(_checked(command, arguments).target)  # takes part until the first rank ends
    except OutriderError as error:
        raise type(error)(f"rank {rank()}: {error}") from error


def _checked(command: Command, arguments: Sequence[str]) -> Any:
    """Returns the config of a command that may run on several ranks."""
    is_single = "--multirun" not in arguments
    require(is_single, "--multirun", True, "a single run where torchrun has started it")
    config = compose(command.name, list(arguments))
    is_parallel = (config.get("target") or {}).get("tensor_parallel", False)
    expected = f"true, torchrun has started {world()} processes"
    require(bool(is_parallel), FIELD, is_parallel, expected)
    able = [name for name, other in installed().commands.items() if other.distributed]
    expected = f"false, only {' and '.join(able)} can do that"
    require(command.distributed, FIELD, is_parallel, expected)
    return config


def _on_sigterm(*_: Any) -> None:
    """Raises an error when torchrun stops this rank, so that the run saves what it has."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not LOST.is_set():  # otherwise this rank is ending already
        raise TargetError(
            "stopped by torchrun, since another rank has ended or torchrun was stopped"
        )
