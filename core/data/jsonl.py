"""Prompts from files with JSON lines: the demo set that comes with the package, or any other."""

from collections.abc import Iterator
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from outrider.base.bounds import ExistingFile, checked
from outrider.base.errors import ConfigError
from outrider.base.json_values import json_of
from outrider.data.prompts import Prompt
from outrider.data.reading import collect, numbered, spaced, text_of

DEMO = Path(__file__).parent / "demo.jsonl"


def demo(limit: int | None = None) -> list[Prompt]:
    """Returns the two dozen prompts that come with the package.

    Their categories are chat, code, summary, rewriting, extraction and translation.

    limit: how many to take, evenly spaced over the set. Defaults to all.
    """
    return jsonl(str(DEMO), limit)


def own() -> list[Prompt]:
    """Returns no prompts: for training recipes that let the target write its own."""
    return []


@checked("data")
def jsonl(
    path: ExistingFile,
    limit: int | None = None,
    column: str | None = None,
    skip: bool = False,
) -> list[Prompt]:
    """Returns the prompts in a file with a JSON object per line, in a form of `records.FORMS`.

    path: the file.
    column: the key that holds the prompt: a string, a list of turns, or a list of messages.
        Defaults to that of the record's form.
    limit: how many to take, evenly spaced over the file, so that its categories stay mixed.
        Defaults to all.
    skip: leave out records that are not usable, and say how many.
    """
    return spaced(collect(json_lines(path), path, column, skip=skip), limit)


def json_lines(path: str) -> Iterator[tuple[str, Any]]:
    """Yields the records of a file with JSON, each with its place, or the error of reading it."""
    content = text_of(path)
    if content.lstrip().startswith("["):  # all records in one list
        try:
            records = json_of(content)
        except JSONDecodeError as error:
            raise ConfigError(f"{path}: no JSON (line {error.lineno}: {error.msg})") from error
        yield from numbered(records, path)
        return
    # Not splitlines: it also splits at characters that JSON strings may hold, such as U+2028.
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                yield where, json_of(line)
            except JSONDecodeError as error:
                reason = f"no JSON ({error.msg} at character {error.pos})"
                yield where, ConfigError(f"{where}: {reason}")
