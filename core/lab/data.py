"""Data: prompts to measure on, from a file or from the demo set."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.errors import ConfigError, require, whole

DEMO = Path(__file__).parent / "demo.jsonl"


@final
@dataclass(frozen=True, slots=True)
class Prompt:
    """One question: its id, its category, and the user's turns, of which the first is decoded."""

    id: str
    category: str
    turns: tuple[str, ...]


def demo(limit: int | None = None) -> list[Prompt]:
    """Returns the two dozen prompts that come with the package: chat, code, summary, rewriting,
    extraction and translation.

    limit: take that many, evenly spaced over the set.
    """
    return _spaced(read_jsonl(str(DEMO)), limit)


def jsonl(path: str, limit: int | None = None) -> list[Prompt]:
    """Returns the prompts in a file of Spec-Bench's format; see `read_jsonl`.

    limit: take that many, evenly spaced over the file, so that its categories stay mixed.
    """
    return _spaced(read_jsonl(path), limit)


def read_jsonl(path: str) -> list[Prompt]:
    """Returns the prompts in a file with a JSON object a line: question_id, category, turns.

    Raises:
        ConfigError: the file is missing or empty, or a line (named by number) does not fit.
    """
    file = Path(path).expanduser()
    require(file.is_file(), "data.path", path, "a file that exists")
    prompts: dict[str, Prompt] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            prompt = _parse(line, f"{path}, line {number}")
            if prompt.id in prompts:
                raise ConfigError(f"{path}, line {number}: question_id {prompt.id} a second time")
            prompts[prompt.id] = prompt
    if not prompts:
        raise ConfigError(f"data.path={path!r}: expected at least one prompt, the file is empty")
    return list(prompts.values())


def _parse(line: str, where: str) -> Prompt:
    try:
        item: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where}: no JSON ({error.msg} at character {error.pos})") from error
    keys = ("question_id", "category", "turns")
    if not isinstance(item, dict) or any(key not in item for key in keys):
        raise ConfigError(f"{where}: expected an object with {', '.join(keys)}")
    turns = item["turns"]
    if not (isinstance(turns, list) and turns and all(isinstance(turn, str) for turn in turns)):
        raise ConfigError(f"{where}: turns={turns!r}: expected a list of strings")
    return Prompt(str(item["question_id"]), str(item["category"]), tuple(turns))


def _spaced(prompts: list[Prompt], limit: int | None) -> list[Prompt]:
    if limit is None:
        return prompts
    require(whole(limit) and limit >= 1, "data.limit", limit, "a whole number of at least 1")
    count = min(limit, len(prompts))
    return [prompts[i * len(prompts) // count] for i in range(count)]
