"""What is typed after a command, checked and put into the order that Hydra wants."""

import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, partial
from typing import Any

from outrider.base.errors import ConfigError, nearest
from outrider.cli.quoting import quote_prompt
from outrider.cli.usage import Settings, read_settings
from outrider.plugins.command import CONFIG_DIR, Command

FLAGS_WITH_VALUE = (
    "--config-dir", "-cd", "--cfg", "-c", "--package", "-p", "--experimental-rerun",
)  # fmt: skip

SHOWN = ("job", "hydra", "all")
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
CHOICES = {"--cfg": SHOWN, "-c": SHOWN, "--info": INFO, "-i": INFO}
"""The values of the flags that take one of several."""

WORD = re.compile(r"\w[\w-]*")
"""What may be such a value, and is no setting."""

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

    Raises `ConfigError` if a word is neither a flag nor SETTING=VALUE.
    """
    flags: list[str] = []
    overrides: list[str] = []
    words = deque(arguments)
    known = cache(partial(read_settings, command.name))
    while words:
        word = words.popleft()
        name = word.partition("=")[0]
        if not word.startswith("-"):
            overrides += _override(command, word, known())
        elif name in CONFIG_NAME:
            raise ConfigError(f"{name}: the command names its config: outrider {command.name}")
        elif name not in (*FLAGS, *FLAGS_WITH_VALUE):
            raise ConfigError(_no_flag(command, name, known()))
        else:
            is_value = words and (
                name in FLAGS_WITH_VALUE or (name in CHOICES and WORD.fullmatch(words[0]))
            )
            flags += _flag(word, words.popleft() if is_value and name == word else None)
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
    is_hydras = key.lstrip("+").startswith("hydra.")  # who would make a folder named ~
    expanded: Callable[[str], str] = os.path.expanduser if is_hydras else str
    quoted = HOME.sub(lambda found: f'"{expanded(found[1])}"', value)
    return f"{key}={quoted}"


def _flag(word: str, following: str | None) -> list[str]:
    """Returns a flag as Hydra takes it; raises `ConfigError` if its value is missing or unknown.

    following: the next word, if it is the value.
    """
    name, equals, value = word.partition("=")
    given = value if equals else following
    if given is None:
        if name in FLAGS_WITH_VALUE:
            raise ConfigError(f"{name}: expected a value: {name}=...")
        return [word]
    if name in CHOICES and given not in CHOICES[name]:
        raise ConfigError(f"{name}={given}: {nearest(given, CHOICES[name])}")
    if name in CONFIG_DIR:
        given = os.path.expanduser(given)
    return [f"{name}={given}"] if equals else [name, given]


def _override(command: Command, word: str, known: Settings) -> list[str]:
    """Returns a setting as Hydra takes it; nothing for a part that is none anyway."""
    name, equals, value = word.partition("=")
    if name.lstrip("+") == SWEEPER_PARAMS:
        raise ConfigError(f"{name}: expected in a file, or as SETTING=1,2 after --multirun")
    if not (equals or word.startswith("~")) or not name.strip("+~"):
        if name in {*known.groups, *known.values}:
            raise ConfigError(f"{name}: expected a value: {name}=...")
        has_prompt = "prompt" in known.values
        hint = f'; a prompt is given as prompt="{word}"' if has_prompt else ""
        raise ConfigError(f"{word!r}: expected SETTING=VALUE{hint}")
    if value[:1] == "{" and name in known.groups:
        raise ConfigError(f"{word}: expected a name, and its settings as {name}.SETTING=VALUE")
    if value == "null" and name in known.groups:
        kind: Any = command.settings_class
        if kind is None or name not in {it.name for it in fields(kind) if it.default is None}:
            chosen = known.groups[name]
            example = f", such as {name}={chosen}" if chosen else ""
            raise ConfigError(f"{name}=null: expected a name{example}")
        return []
    return [word]


def _no_flag(command: Command, flag: str, known: Settings) -> str:
    name = flag.lstrip("-").replace("-", "_")
    if name in {*known.groups, *known.values}:
        return f"{flag}: settings are written without dashes: {name}=..."
    return f"{flag}: no such flag; `outrider {command.name} --help` lists the settings"
