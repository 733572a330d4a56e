"""Prompts: the conversations that texts are written for, and the formats of their files."""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.errors import ConfigError, is_int, require


@final
@dataclass(frozen=True, slots=True)
class CodeTest:
    """How code that answers a prompt is tested, by the fields of HumanEval (2107.03374).

    prompt: the beginning of the code. test: code that defines `check`, which takes the function.
    entry_point: the function's name.
    """

    prompt: str
    test: str
    entry_point: str


@final
@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation: its id, its category, and the user's turns.

    references: by turn, the answers that are right, such as a summary that a person wrote. Empty
        for a turn without.
    code: how code in the answer is tested, if it is.
    """

    id: str
    category: str
    turns: tuple[str, ...]
    references: tuple[tuple[str, ...], ...] = ()
    code: CodeTest | None = None


def prompt_text(setting: Any) -> Any:
    """Returns the prompt that a setting stands for; a list of ids or prompts stands for itself.

    `@FILE` stands for the content of a file, `-` for that of standard input, both in UTF-8 and
    without the newline at their end. `@@` begins a text with a single `@`. All else is the text.

    Raises:
        ConfigError: the file can't be read, or what was read is no UTF-8.
    """
    if not isinstance(setting, str) or (setting != "-" and setting[:1] != "@"):
        return setting
    if setting.startswith("@@"):
        return setting[1:]
    try:
        content = sys.stdin.buffer.read() if setting == "-" else _file(setting).read_bytes()
        return content.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ConfigError(f"prompt={setting!r}: {error.strerror}: expected a file") from error
    except UnicodeDecodeError as error:
        reason = f"{error.reason} at byte {error.start}"
        raise ConfigError(f"prompt={setting!r}: expected text in UTF-8 ({reason})") from error


def _file(setting: str) -> Path:
    return Path(setting.removeprefix("@")).expanduser()


def read_jsonl(path: str) -> list[Prompt]:
    """Returns the prompts in a file with a JSON object per line, in a form that `parse` reads.

    Raises:
        ConfigError: the file is missing or empty, or a line is in no such form; the message has the
            line's number.
    """
    file = Path(path).expanduser()
    require(file.is_file(), "data.path", path, "a file that exists")
    return collect(_lines(file, path), path)


def parse(item: Any, where: str) -> Prompt:
    """Returns the prompt in a record, which may have one of three forms.

    Spec-Bench: `question_id`, `category`, and `turns`, a list of strings. HumanEval: `task_id`
    and `prompt`. Plain: `prompt`, and optionally `id` and `category`.

    Each may have a `reference`: the right answer, or a list with that of each turn, which may
    itself be a list of several. `test` and `entry_point` beside `prompt` are HumanEval's.

    where: names the record in messages; it is also the id of a prompt without one.

    Raises:
        ConfigError: the record has none of these forms.
    """
    if isinstance(item, dict) and {"question_id", "category", "turns"} <= item.keys():
        turns = item["turns"]
        if not (isinstance(turns, list) and turns and all(isinstance(turn, str) for turn in turns)):
            raise ConfigError(f"{where}: turns={turns!r}: expected a list of strings")
        references = _references(item, len(turns))
        return Prompt(str(item["question_id"]), str(item["category"]), tuple(turns), references)
    if isinstance(item, dict) and "prompt" in item:
        text = item["prompt"]
        if not (isinstance(text, str) and text.strip()):
            raise ConfigError(f"{where}: prompt={text!r}: expected some text")
        name, category = item.get("id", where), item.get("category", "prompt")
        if "task_id" in item:
            name, category = item["task_id"], "code"
        references = _references(item, 1)
        return Prompt(str(name), str(category), (text,), references, _code_test(item, text))
    raise ConfigError(
        f"{where}: expected an object with prompt, or with question_id, category and turns"
    )


def _references(item: dict[str, Any], turns: int) -> tuple[tuple[str, ...], ...]:
    """Returns the right answers by turn; empty if the record has none, or none that are texts."""
    value = item.get("reference")
    by_turn = value if isinstance(value, list) else [value]
    if turns == 1 and len(by_turn) > 1:
        by_turn = [by_turn]
    answers = [answer if isinstance(answer, list) else [answer] for answer in by_turn]
    references = tuple(
        tuple(text for text in texts if isinstance(text, str) and text.strip()) for texts in answers
    )
    return references if any(references) else ()


def _code_test(item: dict[str, Any], prompt: str) -> CodeTest | None:
    """Returns how code is tested, by HumanEval's fields; None if the record has none."""
    test, name = item.get("test"), item.get("entry_point")
    if isinstance(test, str) and isinstance(name, str) and name:
        return CodeTest(prompt, test, name)
    return None


def is_encodable(text: str) -> bool:
    """Returns whether a text can be written as UTF-8; half of a surrogate pair can't.

    JSON can hold such a half, and Python gives invalid bytes of a command line as one.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def spaced(prompts: list[Prompt], limit: int | None) -> list[Prompt]:
    """Returns `limit` of the prompts, evenly spaced, or all of them if it is None."""
    if limit is None:
        return prompts
    require(is_int(limit) and limit >= 1, "data.limit", limit, "a whole number of at least 1")
    count = min(limit, len(prompts))
    return [prompts[i * len(prompts) // count] for i in range(count)]


def collect(items: Iterable[tuple[str, Any]], path: str) -> list[Prompt]:
    """Returns the prompts in some records.

    items: pairs of a name for messages (see `parse`) and a record. path: of the file, for messages.

    Raises:
        ConfigError: there are no records, or two have the same id.
    """
    prompts: dict[str, Prompt] = {}
    for where, item in items:
        prompt = parse(item, where)
        for text in (prompt.id, prompt.category, *prompt.turns):
            if not is_encodable(text):
                raise ConfigError(
                    f"{where}: {text!r}: expected text in UTF-8, it holds half of a surrogate pair"
                )
        if prompt.id in prompts:
            raise ConfigError(
                f"{where}: id {prompt.id}: expected another, an earlier prompt has it"
            )
        prompts[prompt.id] = prompt
    if not prompts:
        raise ConfigError(f"data.path={path!r}: expected at least one prompt, there is none")
    return list(prompts.values())


def _lines(file: Path, path: str) -> Iterator[tuple[str, Any]]:
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"data.path={path!r}: expected text in UTF-8 ({error.reason})") from error
    # Not splitlines: it also splits at characters that JSON strings may hold, such as U+2028.
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                yield where, json.loads(line)
            except json.JSONDecodeError as error:
                raise ConfigError(
                    f"{where}: no JSON ({error.msg} at character {error.pos})"
                ) from error
