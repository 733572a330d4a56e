"""Command: what the console script has to know of a command before it imports one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True, slots=True)
class Command:
    """A command of the console script.

    name: what users type, such as `serve-check`.
    help: what it does, in a few words.
    run: the function, or `"module:name"`. It takes the config that Hydra composes from the file
        `NAME.yaml` on the search path, or the list of arguments if the command is `plain`.
    plain: whether it takes arguments as other programs do, and has no config.
    json: whether `--json` makes it print its result as JSON; see `outrider.base.terminal`.
    ranks: whether it may run on several ranks, started by torchrun.
    extra: the group of the distribution's optional dependencies that it needs, if any.
    """

    name: str
    help: str
    run: Callable[[Any], None] | str
    plain: bool = False
    json: bool = False
    ranks: bool = False
    extra: str | None = None
