"""Prompts: conversations to write texts for, and how a file of them is read."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.errors import ConfigError, is_int, require


@final
@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation: its id, its category, and the user's turns."""

    id: str
    category: str
    turns: tuple[str, ...]


def read_jsonl(path: str) -> list[Prompt]:
    """Returns the prompts in a file with a JSON object a line; see `parse` for its forms.

    Raises:
        ConfigError: the file is missing or empty, or a line (named by number) does not fit.
    """
    file = Path(path).expanduser()
    require(file.is_file(), "data.path", path, "a file that exists")
    return collect(_lines(file, path), path)


def parse(item: Any, where: str) -> Prompt:
    """Returns the prompt in a record, of whichever of three forms it has.

    Spec-Bench: `question_id`, `category` and `turns`, a list of strings. HumanEval: `task_id`
    and `prompt`. Plain: `prompt`, and if it likes `id` and `category`.

    where: stands in the message, and for the id where there is none.

    Raises:
        ConfigError: it has none of them.
    """
    if isinstance(item, dict) and {"question_id", "category", "turns"} <= item.keys():
        turns = item["turns"]
        if not (isinstance(turns, list) and turns and all(isinstance(turn, str) for turn in turns)):
            raise ConfigError(f"{where}: turns={turns!r}: expected a list of strings")
        return Prompt(str(item["question_id"]), str(item["category"]), tuple(turns))
    if isinstance(item, dict) and "prompt" in item:
        said = item["prompt"]
        if not (isinstance(said, str) and said.strip()):
            raise ConfigError(f"{where}: prompt={said!r}: expected some text")
        if "task_id" in item:
            return Prompt(str(item["task_id"]), "code", (said,))
        return Prompt(str(item.get("id", where)), str(item.get("category", "prompt")), (said,))
    raise ConfigError(
        f"{where}: expected an object with prompt, or with question_id, category and turns"
    )


def spaced(prompts: list[Prompt], limit: int | None) -> list[Prompt]:
    """Returns `limit` of the prompts, evenly spaced over them; all where it is None."""
    if limit is None:
        return prompts
    require(is_int(limit) and limit >= 1, "data.limit", limit, "a whole number of at least 1")
    count = min(limit, len(prompts))
    return [prompts[i * len(prompts) // count] for i in range(count)]


def _lines(file: Path, path: str) -> Iterator[tuple[str, Any]]:
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"data.path={path!r}: expected text in UTF-8 ({error.reason})") from error
    # Not splitlines: JSON may hold other line ends than these.
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                yield where, json.loads(line)
            except json.JSONDecodeError as error:
                raise ConfigError(
                    f"{where}: no JSON ({error.msg} at character {error.pos})"
                ) from error


def collect(items: Iterable[tuple[str, Any]], path: str) -> list[Prompt]:
    """Returns the prompts in some records, each with where it stands.

    Raises:
        ConfigError: there is none, or two have one id.
    """
    prompts: dict[str, Prompt] = {}
    for where, item in items:
        found = parse(item, where)
        if found.id in prompts:
            raise ConfigError(f"{where}: the id {found.id} a second time")
        prompts[found.id] = found
    if not prompts:
        raise ConfigError(f"data.path={path!r}: expected at least one prompt, there is none")
    return list(prompts.values())
