"""The list of commands, and the help of each, which comes from its config file."""

import argparse
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from errno import ENOENT
from shutil import get_terminal_size
from typing import Any, NoReturn, final

import yaml  # that of OmegaConf, which is slow to import

from outrider.base.errors import ConfigError
from outrider.plugins.hookspecs import Command
from outrider.plugins.presets import config_files
from outrider.plugins.registry import command_entry, installed
from outrider.plugins.roles import ROLES

FIRST_STEPS = """\
usage: outrider COMMAND [SETTING=VALUE ...]

First steps:
  outrider demo                                   eight drafters on 12 prompts
  outrider generate prompt="Repeat: Guess a few tokens, check them all at once."
                                                  a text, and who wrote it
  outrider compare drafters=[none,prompt_lookup]  drafters side by side
  outrider new-plugin my-idea                     a package for your own drafter
  outrider check drafter=prompt_lookup            the proof that it is lossless

Commands:
{commands}

`outrider COMMAND --help` shows examples and the settings that matter.
`--quiet` prints only a command's result, `--json` prints it as JSON;
`--traceback` shows where an error comes from."""
"""What `outrider` alone prints."""

QUIET_FLAG = "--quiet"
"""The flag that every command takes besides its own arguments."""

JSON_FLAG = "--json"
"""The flag of the commands that can print their result as JSON."""

TRACEBACK_FLAG = "--traceback"
"""The flag that shows the whole traceback of an error, before its line."""

GROUPS = {
    **{name: role.help for name, role in ROLES.items()},
    "sampling": "how tokens are drawn, such as greedy or standard",
}
"""The parts that are chosen by name, each with what it is; of others the config file says it."""

ALL_SETTINGS = """\
`outrider {command} --help-all` shows every setting, those of parts included.
`--multirun gamma=3,5` runs the command for each value.
`--quiet` prints only the result{as_json}."""

LIST_WIDTH = 40
"""Longer lists are left out of the help."""

COLUMN, WIDTH = 34, 100
"""Where the descriptions begin, and where lines end in a wider terminal."""


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """What a config file says: its examples, and by name what is chosen and what is set.

    groups: the option chosen in each group; None if there is none, or if it depends on others.
    values: the value of each setting.
    comments: what the file says of a setting, beside it or above it.
    """

    examples: tuple[str, ...]
    groups: Mapping[str, Any]
    values: Mapping[str, Any]
    comments: Mapping[str, str]


def usage() -> str:
    """Returns what the console script can do: first steps, and all commands, theirs first."""
    commands = sorted(
        installed().commands.values(),
        key=lambda it: FIRST_STEPS.find(f"outrider {it.name} ") % len(FIRST_STEPS),
    )
    width = max(len(command.name) for command in commands)
    lines = (f"  {command.name:{width}}  {command.help}" for command in commands)
    return _fitted(FIRST_STEPS.format(commands="\n".join(lines)))


def command_help(command: Command) -> str:
    """Returns the examples of a command with a config, and its settings with what they mean."""
    settings = read_settings(command.name)
    said = {**GROUPS, **settings.comments}

    def lines(values: Mapping[str, str]) -> list[str]:
        return [_line(name, value, said.get(name, "")) for name, value in values.items()]

    groups = {name: option or "NAME" for name, option in settings.groups.items()}
    listed = "Chosen by name, with settings of their own (see `outrider plugins`):"
    parts = [
        f"usage: outrider {command.name} [SETTING=VALUE ...]",
        _section("Examples:", [_fill(f"  {each}", 4, " \\") for each in settings.examples]),
        _section(listed, lines(groups)),
        _section("Settings:", lines({it: _plain(settings.values[it]) for it in settings.values})),
        ALL_SETTINGS.format(
            command=command.name, as_json=", `--json` prints it as JSON" if command.json else ""
        ),
    ]
    return _fitted("\n\n".join(filter(None, parts)))


@final
class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as those of other commands."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


def argument_parser(
    command: str, description: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    """Returns the parser of a command that takes no config."""
    parser = Parser(prog=f"outrider {command}", description=description, epilog=epilog)
    # Only for the help: the console script removes the flags first.
    quiet = "print only the result: no progress, no notes; errors still go to stderr"
    parser.add_argument(QUIET_FLAG, action="store_true", help=quiet)
    if command_entry(command).source.json:
        parser.add_argument(JSON_FLAG, action="store_true", help="print only the result, as JSON")
    return parser


def read_settings(command: str) -> Settings:
    """Returns what the config file of a command says, with what it takes from other files.

    Raises `FileNotFoundError` if there is none.
    """
    file = config_files().get(f"{command}.yaml")
    if file is None:
        raise FileNotFoundError(ENOENT, "expected it on the search path", f"{command}.yaml")
    text = file.read_text(encoding="utf-8")
    content: Any = yaml.safe_load(text)
    groups: dict[str, Any] = {}
    values: dict[str, Any] = {}
    comments: dict[str, str] = {}
    for item in content.pop("defaults", ()):
        if isinstance(item, Mapping):
            groups |= {
                name.removeprefix("optional "): None if "$" in str(option) else option
                for name, option in item.items()
                if not name.startswith("override ")
            }
        elif item != "_self_":
            included = read_settings(item.strip("/").removesuffix("@_here_"))
            groups |= included.groups
            values |= included.values
            comments |= included.comments
    content.pop("hydra", None)
    own = _flat(content)
    values = own | {name: value for name, value in values.items() if name not in own}
    examples = tuple(re.findall(r"^# (outrider .*)", text, re.MULTILINE))
    return Settings(examples, groups, values, comments | _comments(text))


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a config by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            own = {key: inner for key, inner in _flat(value).items() if key != "_target_"}
            flat |= {f"{name}.{key}": inner for key, inner in own.items()}
        else:
            flat[name] = value
    return flat


def _comments(text: str) -> dict[str, str]:
    """Returns the comment beside each setting; if there is none, the comment lines above it."""
    comments: dict[str, str] = {}
    above: list[str] = []
    parent = ""
    for line in text.splitlines():
        match = re.match(r"( *)(- (?:optional )?)?(\w+):[^#]*(?:# (.+))?$", line)
        if match:
            indent, item, name, beside = match.groups()
            full = f"{parent}.{name}" if indent and not item else name
            parent = parent if indent else name
            if comment := beside or " ".join(above):
                comments[full] = comment
        above = [*above, line[2:]] if line.startswith("# ") else []
    return comments


def _plain(value: Any) -> str:
    """Returns a value as it is typed on the command line."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, list):
        items = f"[{','.join(map(_plain, value))}]"
        return items if len(items) <= LIST_WIDTH else "[...]"
    return "..." if value == "???" else str(value)


def _line(name: str, value: str, comment: str) -> str:
    setting = f"  {name}={value}".ljust(COLUMN - 2)
    return _fill(f"{setting}  {comment}".rstrip(), COLUMN)


def _fitted(text: str) -> str:
    return "\n".join(_fill(line, 4) for line in text.splitlines())


def _fill(line: str, column: int, end: str = "") -> str:
    """Returns a line, broken between words and not within quotes where the terminal's lines end.

    column: where the next line begins. end: what each line but the last ends with.
    """
    width = min(WIDTH, get_terminal_size().columns)
    whole = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"", lambda quoted: quoted[0].replace(" ", "\0"), line)
    broken = textwrap.wrap(
        whole,
        width - len(end),
        subsequent_indent=" " * min(column, width // 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{end}\n".join(broken).replace("\0", " ")


def _section(title: str, lines: list[str]) -> str:
    return "\n".join([title, *lines]) if lines else ""
