"""Data: prompts to measure on, from the demo set, a file, or the hub."""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.errors import ConfigError, require, whole

DEMO = Path(__file__).parent / "demo.jsonl"


@final
@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation: its id, its category, and the user's turns."""

    id: str
    category: str
    turns: tuple[str, ...]


def demo(limit: int | None = None) -> list[Prompt]:
    """Returns the two dozen prompts that come with the package: chat, code, summary, rewriting,
    extraction and translation.

    limit: take that many, evenly spaced over the set.
    """
    return spaced(read_jsonl(str(DEMO)), limit)


def own() -> list[Prompt]:
    """Returns no prompts: the target writes its own, where a recipe can do with that."""
    return []


def jsonl(path: str, limit: int | None = None) -> list[Prompt]:
    """Returns the prompts in a file with a JSON object a line; see `prompt` for its forms.

    limit: take that many, evenly spaced over the file, so that its categories stay mixed.
    """
    return spaced(read_jsonl(path), limit)


def parquet(path: str, limit: int | None = None) -> list[Prompt]:
    """Returns the prompts in a parquet file, whose columns are as the keys of a JSON line.

    Raises:
        ConfigError: the file is missing, empty or damaged, or a row does not fit.
    """
    import pyarrow
    from pyarrow import parquet as files

    file = Path(path).expanduser()
    require(file.is_file(), "data.path", path, "a file that exists")
    try:
        rows = files.read_table(file).to_pylist()
    except pyarrow.ArrowException as error:
        line = " ".join(str(error).split())
        raise ConfigError(
            f"data.path={path!r}: no parquet file, or a damaged one ({line})"
        ) from error
    where = (f"{path}, row {number}" for number in range(1, len(rows) + 1))
    return spaced(_all(zip(where, rows, strict=True), path), limit)


def text(path: str, words: int = 200, limit: int | None = None) -> list[Prompt]:
    """Returns chunks of a text file of that many words each, to be continued.

    Raises:
        ConfigError: the file is missing, empty, or no text.
    """
    file = Path(path).expanduser()
    require(file.is_file(), "data.path", path, "a file that exists")
    require(whole(words) and words >= 1, "data.words", words, "a whole number of at least 1")
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"data.path={path!r}: expected text in UTF-8 ({error.reason})") from error
    # Cut between words, so that what lies between them stays as it is.
    starts = [place for place, _ in _words(content)]
    require(len(starts) > 0, "data.path", path, "at least one word in it")
    cuts = [*starts[::words], len(content)]
    chunks = [content[a:b].strip() for a, b in itertools.pairwise(cuts)]
    return spaced([Prompt(str(i), file.stem, (chunk,)) for i, chunk in enumerate(chunks, 1)], limit)


def hub(
    name: str,
    split: str = "test",
    subset: str | None = None,
    column: str = "prompt",
    limit: int | None = None,
) -> list[Prompt]:
    """Returns the prompts in a data set of the Hugging Face hub, or a local folder of one.

    Rows in one of the forms of `prompt` are read as such; of others `column` is the prompt.

    Raises:
        ConfigError: the `datasets` library is not there, or the data set can't be loaded.
    """
    try:
        import datasets  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ConfigError("data=hub needs: pip install 'outrider[hub]'") from error
    try:
        rows = [dict(row) for row in datasets.load_dataset(name, subset, split=split)]
    except Exception as error:  # of many libraries
        line = " ".join(str(error).split())
        raise ConfigError(f"data.name={name!r} can't be loaded: {line}") from error
    for row in rows:
        if "turns" not in row and isinstance(row.get(column), str):
            row["prompt"] = row[column]
    where = (f"{name}, row {number}" for number in range(1, len(rows) + 1))
    return spaced(_all(zip(where, rows, strict=True), name), limit)


def read_jsonl(path: str) -> list[Prompt]:
    """Returns the prompts in a file with a JSON object a line; see `prompt` for its forms.

    Raises:
        ConfigError: the file is missing or empty, or a line (named by number) does not fit.
    """
    file = Path(path).expanduser()
    require(file.is_file(), "data.path", path, "a file that exists")
    return _all(_lines(file, path), path)


def prompt(item: Any, where: str) -> Prompt:
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
    require(whole(limit) and limit >= 1, "data.limit", limit, "a whole number of at least 1")
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


def _all(items: Iterable[tuple[str, Any]], path: str) -> list[Prompt]:
    prompts: dict[str, Prompt] = {}
    for where, item in items:
        found = prompt(item, where)
        if found.id in prompts:
            raise ConfigError(f"{where}: the id {found.id} a second time")
        prompts[found.id] = found
    if not prompts:
        raise ConfigError(f"data.path={path!r}: expected at least one prompt, there is none")
    return list(prompts.values())


def _words(content: str) -> Iterator[tuple[int, str]]:
    place = 0
    for word in content.split():
        place = content.index(word, place)
        yield place, word
        place += len(word)
