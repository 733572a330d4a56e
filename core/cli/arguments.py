"""What is typed after a command, put into the order and the grammar that Hydra wants."""

import os
import re
from collections.abc import Sequence
from dataclasses import fields
from pkgutil import resolve_name
from typing import Any

from outrider.base.errors import ConfigError, is_int, require
from outrider.cli.usage import Parser
from outrider.plugins.hookspecs import Command

SWEEP = "--multirun"

UNQUOTED = re.compile(
    r"""("(?:\\.|[^"])*"|'(?:\\.|[^'])*')"""  # what is in quotes, and stays
    r"""|(?<![^\[{,:=\s])(~[^\s,\]}"']*|(?!\s)[^,:=\[\]{}"']*[^\x00-\x7f][^,:=\[\]{}"']*)"""
)
"""A path in the user's home, or a text with other letters, which Hydra's grammar has in quotes."""

SETTING = re.compile(r"[\w.+~@/-]*=|~")
"""How a word begins that is a setting; an address has a colon before its first equals sign."""

QUOTATION = ("'", '"', "[")
"""How a quotation or a list begins."""


def arranged(command: Command, arguments: Sequence[str]) -> list[str]:
    """Returns the arguments as Hydra expects them: flags first, texts and paths quoted.

    Flags have their long names, each in one word with its value. In a sweep texts are not quoted: a
    comma there separates values.

    Raises `ConfigError` for a flag that there is not, or that lacks its value.
    """
    from hydra._internal.utils import get_args_parser  # help needs none

    parents = [get_args_parser()]
    parser = Parser(prog=f"outrider {command.name}", parents=parents, add_help=False)
    found, others = parser.parse_known_intermixed_args(arguments)
    if others:
        hint = f"settings are written NAME=VALUE, and `{parser.prog} --help` lists them"
        raise ConfigError(f"{others[0]}: no such flag; {hint}")
    given = vars(found)
    words: list[str] = given.pop("overrides")
    require(given["config_path"] is None, "--config-path", given["config_path"], "--config-dir")
    given["config_dir"] = given["config_dir"] and os.path.expanduser(given["config_dir"])
    flags = [
        f"--{name.replace('_', '-')}{'' if value is True else f'={value}'}"
        for name, value in given.items()
        if value not in (None, False)
    ]
    kind: Any = command.settings_class
    # A part that is none by default, which Hydra does not take as a choice.
    nulls = [f"{it.name}=null" for it in (fields(kind) if kind else ()) if it.default is None]
    overrides = [word for word in words if word not in nulls]
    if command.words is not None:
        settings = resolve_name(command.words) if isinstance(command.words, str) else command.words
        named = [word for word in overrides if SETTING.match(word)]
        overrides = [*settings([word for word in overrides if word not in named]), *named]
    return [*flags, *map(quote_words if given["multirun"] else quoted_override, overrides)]


def quote_words(override: str) -> str:
    """Returns an override whose words may begin with `~`, as for a shell, or be of any script.

    >>> quote_words("stop=[~, schön und gut]")
    'stop=["~", "schön und gut"]'
    """
    key, equals, value = override.partition("=")
    if not equals or value[:1] in ("'", '"'):
        return override
    is_hydras = key.lstrip("+").startswith("hydra.")  # which would make a folder named ~
    expanded = os.path.expanduser if is_hydras else str
    quoted = UNQUOTED.sub(lambda it: it[1] or f'"{expanded(it[2].rstrip())}"', value)
    return f"{key}={quoted}"


def quoted_override(override: str) -> str:
    """Returns an override, quoted if it is a prompt, a path in the home or no text for Hydra.

    In a prompt Hydra would read a comma as a sweep, a quotation as its content, and ${...} as a
    reference. A prompt in quotation marks, or a list of prompts or ids in brackets, is taken as one
    if all of it is; otherwise the marks and brackets are a part of the text.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser  # help needs none
    from hydra.errors import HydraException

    key, equals, text = override.partition("=")
    if not equals or (key == "prompt" and text[:1] not in QUOTATION):
        return f"{key}={_literal(text)}" if equals else override
    override = quote_words(override)
    try:
        value: Any = OverridesParser.create().parse_override(override).value()
    except HydraException:
        return f"{key}={_literal(text)}" if key.strip("+~") else override
    if key != "prompt":
        return override
    items = [value] if isinstance(value, str) else value
    is_prompt = all(isinstance(item, str | list) or is_int(item) for item in items)
    return f"prompt={_literal(value if is_prompt else text)}"


def _literal(value: Any) -> str:
    """Returns a text, or a list of texts or ids, in Hydra's grammar."""
    if isinstance(value, list):
        return f"[{','.join(map(_literal, value))}]"
    if not isinstance(value, str):
        return str(value)

    # A backslash stands for itself, except before what is escaped, where it must be doubled.
    def escape_mark(match: re.Match[str]) -> str:
        return 2 * match[1] + (f"\\{match[2]}" if match[2] else "")

    return '"' + re.sub(r'(\\*)(\$\{|"|\Z)', escape_mark, value) + '"'
