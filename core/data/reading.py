"""Prompts in the records of a data set, checked, and skipped or refused."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from outrider.base.bounds import Count, checked
from outrider.base.contents import text_in
from outrider.base.errors import ConfigError, require
from outrider.base.terminal import remark
from outrider.data.conversations import replay_of
from outrider.data.prompts import Prompt, is_encodable
from outrider.data.records import IDS, form_of, text_beside, turns_of

Item = TypeVar("Item")

PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"
"""What the hub's copy of SPEED-Bench has in place of texts that may not be copied."""


def text_of(path: str, field: str = "data.path") -> str:
    """Returns the text in a file; raises `ConfigError`, with the setting that names it, if none.

    Every end of a line is a newline.
    """
    try:
        return StringIO(text_in(Path(path).expanduser()), newline=None).read()
    except ValueError as error:
        raise ConfigError(f"{field}={path!r}: {error}") from error


def collect(
    items: Iterable[tuple[str, Any]], path: str, column: str | None = None, *, skip: bool = False
) -> list[Prompt]:
    """Returns the prompts in some records.

    items: pairs of a name for messages (see `parse`) and a record, or the error of reading it.
    path: the path of the file, for messages.
    column: the column that holds the prompt. Defaults to that of the record's form.
    skip: leave out the records that are not usable; a line counts them, with the first's reason.

    Raises `ConfigError` if there are no records, or one is not usable, or two have the same id.
    """
    prompts: dict[str, Prompt] = {}
    skipped: list[ConfigError] = []
    for where, item in items:
        try:
            prompt = _usable(where, item, column, prompts)
        except ConfigError as error:
            if not skip:
                raise
            skipped.append(error)
        else:
            prompts[prompt.id] = prompt
    if skipped:
        count = len(prompts) + len(skipped)
        remark(f"data.path={path!r}: {len(skipped)} of {count} records are skipped; {skipped[0]}")
    require(bool(prompts), "data.path", path, "at least one prompt, there is none")
    return list(prompts.values())


def _usable(where: str, item: Any, column: str | None, known: Collection[str]) -> Prompt:
    """Returns the prompt in a record; raises `ConfigError` if it is not usable.

    known: the ids of earlier prompts.
    """
    if isinstance(item, ConfigError):
        raise item
    prompt = parse(item, where, column)
    replayed = prompt.replay and (prompt.replay.messages, prompt.replay.tools)
    said = json.dumps(replayed, ensure_ascii=False, default=str)
    for text in (prompt.id, prompt.category, *prompt.turns, said):
        if not is_encodable(text):
            raise ConfigError(
                f"{where}: {text!r:.60}: expected text in UTF-8, it holds half of a surrogate pair"
            )
    if any(PLACEHOLDER in turn for turn in prompt.turns):
        raise ConfigError(
            f"{where}: expected the prompt itself, this copy of SPEED-Bench has a placeholder:"
            " prepare it with NVIDIA's specdec_bench, and see data=speed_bench"
        )
    if prompt.id in known:
        raise ConfigError(f"{where}: id {prompt.id}: expected another, an earlier prompt has it")
    return prompt


def parse(item: Any, where: str, column: str | None = None) -> Prompt:
    """Returns the prompt in a record of a data set, in a form of `FORMS`.

    A record may have a `reference`: the right answer, or a list with the right answer of each turn,
    or several. `test` and `entry_point` beside `prompt` are HumanEval's.

    where: the name of the record in messages, and the id of a prompt that has none.
    column: the column that holds the prompt. Defaults to that of the record's form.

    Raises `ConfigError` if the record is in none of the forms, has no such column, or an answer
    that is neither a text nor a number.
    """
    form = form_of(item, where, column)
    id = next((str(item[key]) for key in IDS if item.get(key) not in (None, "")), where)
    replay, category = replay_of(item, form, where), item.get("category")
    turns = turns_of(item, form, where) if replay is None else replay.turns()
    category = form.category if category in (None, "") else str(category)
    references, language = _references(item, len(turns), where), str(item.get("language") or "")
    return Prompt(id, category, turns, references, language, replay)


def _references(item: dict[str, Any], turns: int, where: str) -> tuple[tuple[str, ...], ...]:
    """Returns the right answers of each turn; empty if the record has none."""
    value = item.get("reference")
    by_turn = value if isinstance(value, list) else [value]
    if turns == 1 and len(by_turn) > 1:
        by_turn = [by_turn]
    answers = [answer if isinstance(answer, list) else [answer] for answer in by_turn]
    if len(answers) > turns:
        raise ConfigError(f"{where}: reference={value!r:.60}: expected one for each turn, {turns}")
    named = f"{where}: reference"
    texts = tuple(tuple(filter(None, (text_beside(it, named) for it in own))) for own in answers)
    return texts if any(texts) else ()


@checked("data")
def spaced(prompts: Sequence[Item], limit: Count | None) -> list[Item]:
    """Returns `limit` of the prompts, evenly spaced, or all of them if it is None."""
    if limit is None:
        return [*prompts]
    count = min(limit, len(prompts))
    return [prompts[i * len(prompts) // count] for i in range(count)]


def numbered(records: Iterable[Any], source: str) -> Iterator[tuple[str, Any]]:
    """Yields each record with its place, for messages and as the id of a prompt without one."""
    for number, record in enumerate(records, start=1):
        yield f"{source}, row {number}", record
