"""Prompts: the conversations that texts are written for, and the texts that settings name."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, final

from outrider.base.contents import decoded, text_in
from outrider.base.errors import ConfigError, require
from outrider.data.conversations import Replay


@final
@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation: its id, its category, and the user's turns.

    references: for each turn, its right answers, such as a summary that a person wrote.
    language: the one that the data names; empty if it names none.
    replay: the conversation itself, if it has tools: each turn follows what came before it there.
    """

    id: str
    category: str
    turns: tuple[str, ...]
    references: tuple[tuple[str, ...], ...] = ()
    language: str = ""
    replay: Replay | None = None


def without_tools(prompts: Sequence[Prompt]) -> Sequence[Prompt]:
    """Returns prompts for a reader of turns alone; raises `ConfigError` if one has tools."""
    for prompt in prompts:
        is_plain = prompt.replay is None
        require(is_plain, "data: prompt", prompt.id, "one without tools, `compare` replays them")
    return prompts


_kept: list[BinaryIO] = []
"""Standard input, where `input_kept` has taken it away from everything else."""


@contextmanager
def input_kept() -> Iterator[None]:
    """Keeps standard input for a prompt: all else, children too, finds it empty.

    So no library reads a text, or the lines of a loop in a shell, as the answer to a question of
    its own. A terminal stays, for debuggers.
    """
    if sys.stdin is None or sys.stdin.isatty():
        yield
        return
    with os.fdopen(os.dup(0), "rb") as given, open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
        _kept.append(given)
        try:
            yield
        finally:
            _kept.clear()
            os.dup2(given.fileno(), 0)


def prompt_text(setting: Any) -> Any:
    """Returns the prompt that a setting stands for; a list of ids or prompts stands for itself.

    `@FILE` stands for the content of a file, `-` for that of standard input, both in UTF-8 and
    without the newline at their end. `@@` begins a text with a single `@`. Anything else is the
    text itself.

    Raises `ConfigError` if the file can't be read, or the content is not UTF-8.
    """
    if not isinstance(setting, str) or (setting != "-" and setting[:1] != "@"):
        return setting
    if setting.startswith("@@"):
        return setting[1:]
    return file_text("prompt", None if setting == "-" else setting[1:])


def file_text(field: str, path: str | None) -> str:
    """Returns the content of a file in UTF-8, without the newline at its end.

    field: the setting that names it, for messages.
    path: None for standard input.

    Raises `ConfigError` if the file can't be read, or is not UTF-8.
    """
    setting = "-" if path is None else f"@{path}"
    try:
        file = None if path is None else Path(path).expanduser()
        given = _kept[0] if _kept else sys.stdin.buffer
        content = decoded(given.read()) if file is None else text_in(file)
        return content.removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ConfigError(f"{field}={setting!r}: {error.strerror}: expected a file") from error
    except ValueError as error:
        raise ConfigError(f"{field}={setting!r}: {error}") from error


def is_encodable(text: str) -> bool:
    """Returns whether a text can be written as UTF-8; half of a surrogate pair can't.

    JSON can hold such a half, and Python gives invalid bytes of a command line as one.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
