"""Prompts in the records of a data set, checked, and skipped or refused."""

import gzip
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError
from outrider.base.terminal import plain, remarks
from outrider.data.prompts import Prompt, is_encodable
from outrider.data.records import IDS, form_of, turns_of

PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"
"""What the hub's copy of SPEED-Bench has in place of texts that may not be copied."""


def text_of(path: str) -> str:
    """Returns a file's content, unpacked if it is a gzip, and without a byte order mark.

    Raises:
        ConfigError: it is not in UTF-8, or a damaged gzip.
    """
    file = Path(path).expanduser()
    with file.open("rb") as start:
        is_packed = start.read(2) == b"\x1f\x8b"
    try:
        if is_packed:
            with gzip.open(file, "rt", encoding="utf-8-sig") as content:
                return content.read()
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"data.path={path!r}: expected text in UTF-8 ({error.reason})") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"data.path={path!r}: damaged gzip ({error})") from error


def collect(
    items: Iterable[tuple[str, Any]], path: str, column: str | None = None, *, skip: bool = False
) -> list[Prompt]:
    """Returns the prompts in some records.

    items: pairs of a name for messages (see `parse`) and a record, or the error of reading it.
    path: the path of the file, for messages.
    column: the column that holds the prompt. Defaults to that of the record's form.
    skip: leave out the records that are not usable; a line counts them, with the first's reason.

    Raises:
        ConfigError: there are no records, or one is not usable, or two have the same id.
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
        line = f"data.path={path!r}: {len(skipped)} of {count} records are skipped; {skipped[0]}"
        remarks().print(plain(line), soft_wrap=True)
    if not prompts:
        raise ConfigError(f"data.path={path!r}: expected at least one prompt, there is none")
    return list(prompts.values())


def _usable(where: str, item: Any, column: str | None, known: Collection[str]) -> Prompt:
    """Returns the prompt in a record; raises `ConfigError` if it is not usable.

    known: the ids of earlier prompts.
    """
    if isinstance(item, ConfigError):
        raise item
    prompt = parse(item, where, column)
    for text in (prompt.id, prompt.category, *prompt.turns):
        if not is_encodable(text):
            raise ConfigError(
                f"{where}: {text!r}: expected text in UTF-8, it holds half of a surrogate pair"
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

    Raises:
        ConfigError: the record is in none of the forms, or has no such column.
    """
    form = form_of(item, where, column)
    id = next((str(item[key]) for key in IDS if item.get(key) is not None), where)
    category, turns = item.get("category"), turns_of(item, form, where)
    return Prompt(
        id,
        form.category if category is None else str(category),
        turns,
        _references(item, len(turns)),
    )


def _references(item: dict[str, Any], turns: int) -> tuple[tuple[str, ...], ...]:
    """Returns the right answers of each turn; empty if the record has none that are texts."""
    value = item.get("reference")
    by_turn = value if isinstance(value, list) else [value]
    if turns == 1 and len(by_turn) > 1:
        by_turn = [by_turn]
    answers = [answer if isinstance(answer, list) else [answer] for answer in by_turn]
    references = tuple(
        tuple(text for text in texts if isinstance(text, str) and text.strip()) for texts in answers
    )
    return references if any(references) else ()


@checked("data")
def spaced(prompts: list[Prompt], limit: Count | None) -> list[Prompt]:
    """Returns `limit` of the prompts, evenly spaced, or all of them if it is None."""
    if limit is None:
        return prompts
    count = min(limit, len(prompts))
    return [prompts[i * len(prompts) // count] for i in range(count)]


def numbered(records: Iterable[Any], source: str) -> Iterator[tuple[str, Any]]:
    """Yields each record with its place, for messages and as the id of a prompt without one."""
    for number, record in enumerate(records, start=1):
        yield f"{source}, row {number}", record
