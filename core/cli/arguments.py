"""What is typed after a command, checked and put into the order that Hydra wants."""

import re
from collections.abc import Sequence
from dataclasses import fields
from functools import cache, partial
from typing import Any

from outrider.base.errors import ConfigError
from outrider.cli.quoting import quote_prompt
from outrider.cli.usage import Settings, read_settings
from outrider.plugins.command import Command

FLAGS_WITH_VALUE = (
    "--config-dir", "-cd", "--cfg", "-c", "--package", "-p", "--experimental-rerun",
)  # fmt: skip

CONFIG_NAME = ("--config-name", "-cn", "--config-path", "-cp")
"""Flags that would choose the config of another command."""

FLAGS = (
    "--multirun", "-m", "--run", "-r", "--resolve", "--info", "-i", "--hydra-help", "--help",
    "--version", "--shell-completion", "-sc",
)  # fmt: skip

SWEEPER_PARAMS = "hydra.sweeper.params"
"""What Hydra takes from a file alone."""

SWEEP = ("--multirun", "-m")

HOME = re.compile(r"""(?<![^\[{,:=\s])(~[^\s,\]}"']*)""")
"""A path in the user's home, which is an operator in Hydra's grammar."""


def arranged(command: Command, arguments: Sequence[str]) -> list[str]:
    """Returns the arguments as Hydra expects them: flags first, prompts and paths quoted.

    In a sweep prompts are not quoted: a comma there separates values.

    Raises:
        ConfigError: a word is neither a flag nor SETTING=VALUE.
    """
    flags: list[str] = []
    overrides: list[str] = []
    words = iter(arguments)
    known = cache(partial(read_settings, command.name))
    for word in words:
        name, equals, _ = word.partition("=")
        if not word.startswith("-"):
            overrides += _override(command, word, known())
        elif name in CONFIG_NAME:
            raise ConfigError(f"{name}: the command names its config: outrider {command.name}")
        elif name not in (*FLAGS, *FLAGS_WITH_VALUE):
            raise ConfigError(_no_flag(command, name, known()))
        else:
            flags.append(word)
            if name in FLAGS_WITH_VALUE and not equals:
                flags.append(next(words, ""))
    if any(flag in SWEEP for flag in flags):
        return [*flags, *map(quote_home, overrides)]
    return [*flags, *(quote_home(quote_prompt(override)) for override in overrides)]


def quote_home(override: str) -> str:
    """Returns an override whose values may begin with `~`, as for a shell.

    >>> quote_home("drafter.path=~/store")
    'drafter.path="~/store"'
    """
    key, equals, value = override.partition("=")
    if not equals or value[:1] in ("'", '"'):
        return override
    return key + "=" + HOME.sub(r'"\1"', value)


def _override(command: Command, word: str, known: Settings) -> list[str]:
    """Returns a setting as Hydra takes it; nothing for a part that is none anyway."""
    name, equals, value = word.partition("=")
    if name.lstrip("+") == SWEEPER_PARAMS:
        raise ConfigError(f"{name}: expected in a file, or as SETTING=1,2 after --multirun")
    if not equals and not word.startswith("~"):
        if name in {*known.groups, *known.values}:
            raise ConfigError(f"{name}: expected a value: {name}=...")
        has_prompt = "prompt" in known.values
        hint = f'; a prompt is given as prompt="{word}"' if has_prompt else ""
        raise ConfigError(f"{word!r}: expected SETTING=VALUE{hint}")
    if value == "null" and name in known.groups:
        if name not in _optional(command):
            chosen = known.groups[name]
            example = f", such as {name}={chosen}" if chosen else ""
            raise ConfigError(f"{name}=null: expected a name{example}")
        return []
    return [word]


def _optional(command: Command) -> set[str]:
    kind: Any = command.settings_class
    return set() if kind is None else {it.name for it in fields(kind) if it.default is None}


def _no_flag(command: Command, flag: str, known: Settings) -> str:
    name = flag.lstrip("-").replace("-", "_")
    if name in {*known.groups, *known.values}:
        return f"{flag}: settings are written without dashes: {name}=..."
    return f"{flag}: no such flag; `outrider {command.name} --help` lists the settings"
