"""A command on several ranks: the first runs it, the others take part in its target's passes."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from outrider.base.errors import ConfigError, OutriderError, TargetError, require
from outrider.extras.ranks.torchrun import FIELD, lost, rank, world
from outrider.plugins.config import build, compose
from outrider.plugins.hookspecs import Command
from outrider.plugins.registry import installed

SWEEPS = ("-m", "--multirun")


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
    is_single = not any(argument in SWEEPS for argument in arguments)
    require(is_single, "--multirun", True, "a single run where torchrun has started it")
    config = compose(command.name, list(arguments))
    is_parallel = (config.get("target") or {}).get("tensor_parallel", False)
    if not is_parallel:
        raise ConfigError(
            f"{FIELD}={is_parallel}: expected true, torchrun has started {world()} processes"
        )
    if not command.distributed:
        able = [name for name, other in installed().commands.items() if other.distributed]
        line = f"{FIELD}={is_parallel}: expected false, only {' and '.join(able)} can do that"
        raise ConfigError(line)
    workers = config.get("workers")
    require(workers is None, "workers", workers, "null where torchrun has started processes")
    return config


def _on_sigterm(*_: Any) -> None:
    """Raises an error when torchrun stops this rank, so that the run saves what it has."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not lost():  # otherwise this rank is ending already
        raise TargetError(
            "stopped by torchrun, since another rank has ended or torchrun was stopped"
        )
