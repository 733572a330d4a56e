"""Data: reads the prompts to measure on, from the demo set, a file, or the Hugging Face hub."""

import itertools
from pathlib import Path
from typing import Annotated

from outrider.base.bounds import Count, ExistingFile, checked
from outrider.base.errors import ConfigError, require
from outrider.base.optional import require_installed
from outrider.data.prompts import Prompt, collect, read_jsonl, spaced

DEMO = Path(__file__).parent / "demo.jsonl"


def demo(limit: int | None = None) -> list[Prompt]:
    """Returns the two dozen prompts that come with the package.

    Their categories are chat, code, summary, rewriting, extraction and translation.

    limit: how many to take, evenly spaced over the set. Defaults to all.
    """
    return spaced(read_jsonl(str(DEMO)), limit)


def own() -> list[Prompt]:
    """Returns no prompts: for training recipes that let the target write its own."""
    return []


@checked("data")
def jsonl(
    path: Annotated[str, ExistingFile()], limit: int | None = None, column: str | None = None
) -> list[Prompt]:
    """Returns the prompts in a file with a JSON object per line, in a form of `outrider.data.rows`.

    path: the file.
    column: the key that holds the prompt: a string, a list of turns, or a list of messages.
        Defaults to that of the row's form.
    limit: how many to take, evenly spaced over the file, so that its categories stay mixed.
        Defaults to all.
    """
    return spaced(read_jsonl(path, column), limit)


@checked("data")
def parquet(
    path: Annotated[str, ExistingFile()], limit: int | None = None, column: str | None = None
) -> list[Prompt]:
    """Returns the prompts in a parquet file; its columns are named like the keys of `jsonl`.

    path: the file.
    column, limit: as for `jsonl`.

    Raises:
        ConfigError: pyarrow is not installed, the file is missing, empty or damaged, or a row is
            in no known form.
    """
    require_installed("data=parquet", "pyarrow")
    import pyarrow
    from pyarrow import parquet as files

    file = Path(path).expanduser()
    try:
        rows = files.read_table(file).to_pylist()
    except pyarrow.ArrowException as error:
        line = " ".join(str(error).split())
        raise ConfigError(
            f"data.path={path!r}: expected a parquet file that can be read ({line})"
        ) from error
    names = (f"{path}, row {number}" for number in range(1, len(rows) + 1))
    return spaced(collect(zip(names, rows, strict=True), path, column), limit)


@checked("data")
def text(
    path: Annotated[str, ExistingFile()], words: Count = 200, limit: Count | None = None
) -> list[Prompt]:
    """Returns chunks of a text file, for the target to continue.

    path: the file. Use `chat=false` with it.
    words: the length of a chunk.
    limit: as for `jsonl`.

    Raises:
        ConfigError: the file is missing, empty, or not text.
    """
    file = Path(path).expanduser()
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"data.path={path!r}: expected text in UTF-8 ({error.reason})") from error
    # Cut the text itself rather than join its words, so that white space inside a chunk is kept.
    starts = _word_starts(content)
    require(len(starts) > 0, "data.path", path, "at least one word in it")
    cuts = [*starts[::words], len(content)]
    chunks = [content[start:end].strip() for start, end in itertools.pairwise(cuts)]
    return spaced([Prompt(str(i), file.stem, (chunk,)) for i, chunk in enumerate(chunks, 1)], limit)


def hub(
    name: str,
    split: str = "test",
    subset: str | None = None,
    column: str | None = None,
    limit: int | None = None,
) -> list[Prompt]:
    """Returns the prompts in a data set of the Hugging Face hub, or in a local copy of one.

    name: OWNER/SET on the hub, or a folder.
    split: the part of the data set.
    subset: its configuration, if it has several.
    column, limit: as for `jsonl`.

    Raises:
        ConfigError: the `datasets` library is not installed, or the data set can't be loaded.
    """
    require_installed("data=hub", "datasets")
    import datasets  # type: ignore[import-not-found,unused-ignore]

    try:
        rows = [dict(row) for row in datasets.load_dataset(name, subset, split=split)]
    except Exception as error:  # many libraries are involved, each with its own errors
        line = " ".join(str(error).split())
        raise ConfigError(f"data.name={name!r} can't be loaded: {line}") from error
    names = (f"{name}, row {number}" for number in range(1, len(rows) + 1))
    return spaced(collect(zip(names, rows, strict=True), name, column), limit)


def _word_starts(content: str) -> list[int]:
    """Returns the position of each word's first character."""
    starts, position = [], 0
    for word in content.split():
        position = content.index(word, position)
        starts.append(position)
        position += len(word)
    return starts
