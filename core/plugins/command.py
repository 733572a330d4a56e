"""What the console script has to know of a command before it imports one."""

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, final

CONFIG_DIR = ("--config-dir", "-cd")
"""Flags of Hydra that name a folder of config files."""


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
    distributed: whether it may run with a target that is spread over several processes.
    settings: the dataclass of its settings, or `"module:name"`: their types and bounds. `run` is
        then given an instance instead of the config. Its module should import little.
    check: a function, or `"module:name"`, that raises `ConfigError` for settings that can't run. It
        is asked about all jobs of a sweep before the first one starts.
    extra: the group of the distribution's optional dependencies that it needs, if any.
    words: a function, or `"module:name"`, that returns settings for the words that are none, such
        as an address. Defaults to none, so that Hydra refuses them.
    """

    name: str
    help: str
    run: Callable[[Any], None] | str
    plain: bool = False
    json: bool = False
    distributed: bool = False
    settings: type | str | None = None
    check: Callable[[Any], None] | str | None = None
    extra: str | None = None
    words: Callable[[list[str]], list[str]] | str | None = None

    @property
    def settings_class(self) -> Any:
        """Returns the dataclass of its settings, which is imported only now; None without one."""
        return resolve_name(self.settings) if isinstance(self.settings, str) else self.settings
