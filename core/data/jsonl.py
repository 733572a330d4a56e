"""Prompts from files with JSON lines: the demo set that comes with the package, or any other."""

from collections.abc import Iterator
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from outrider.base.bounds import ExistingFile, checked
from outrider.base.contents import strict_json
from outrider.base.errors import ConfigError
from outrider.data.prompts import Prompt
from outrider.data.reading import collect, numbered, spaced, text_of
from outrider.data.records import speaking

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
    path: ExistingFile, limit: int | None = None, column: str | None = None, skip: bool = False
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


def json_lines(path: str, field: str = "data.path") -> Iterator[tuple[str, Any]]:
    """Yields the records of a file with JSON, each with its place, or the error of reading it.

    A list of messages is read as the record of a conversation.

    field: the setting that names the file, for messages.
    """
    content = text_of(path, field)
    if content.lstrip().startswith("["):  # all records in one list, or a conversation in each line
        try:
            records = strict_json(content, object_pairs_hook=_once)
        except JSONDecodeError as error:
            if error.msg != "Extra data":
                raise ConfigError(f"{path}: no JSON (line {error.lineno}: {error.msg})") from error
        else:
            is_one = all((pair := speaking(it)) and pair[1] in it for it in records or [0])
            yield from numbered(map(_record, [records] if is_one else records), path)
            return
    # Not splitlines: it also splits at characters that JSON strings may hold, such as U+2028.
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                yield where, _record(strict_json(line, object_pairs_hook=_once))
            except JSONDecodeError as error:
                reason = f"no JSON ({error.msg} at character {error.pos})"
                if line.rstrip()[-1] in "{[,":
                    reason = "JSON that goes on in the next line: `jq -c . FILE` writes one in each"
                yield where, ConfigError(f"{where}: {reason}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON; raises `ValueError` if it has two values of a name."""
    values, names = dict(pairs), [name for name, _ in pairs]
    if len(values) < len(pairs):
        raise ValueError(f"two values of {next(it for it in names if names.count(it) > 1)!r}")
    return values


def _record(value: Any) -> Any:
    return {"messages": value} if isinstance(value, list) else value
