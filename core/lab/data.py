"""Data: prompts to measure on, from the demo set, a file, or the hub."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from outrider.errors import ConfigError, is_int, require
from outrider.prompts import Prompt, collect, read_jsonl, spaced

DEMO = Path(__file__).parent / "demo.jsonl"


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
    """Returns the prompts in a file with a JSON object a line; see `outrider.prompts.parse` for its forms.

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
    return spaced(collect(zip(where, rows, strict=True), path), limit)


def text(path: str, words: int = 200, limit: int | None = None) -> list[Prompt]:
    """Returns chunks of a text file of that many words each, to be continued.

    Raises:
        ConfigError: the file is missing, empty, or no text.
    """
    file = Path(path).expanduser()
    require(file.is_file(), "data.path", path, "a file that exists")
    require(is_int(words) and words >= 1, "data.words", words, "a whole number of at least 1")
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

    Rows in one of the forms of `outrider.prompts.parse` are read as such; of others `column` is the prompt.

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
    return spaced(collect(zip(where, rows, strict=True), name), limit)


def _words(content: str) -> Iterator[tuple[int, str]]:
    place = 0
    for word in content.split():
        place = content.index(word, place)
        yield place, word
        place += len(word)
