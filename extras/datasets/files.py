"""Prompts from CSV files, and from the lines and chunks of a text."""

import csv as files
import io
import itertools
from pathlib import Path
from typing import Annotated

from outrider.base.bounds import Count, ExistingFile, Like, checked
from outrider.base.errors import ConfigError, require
from outrider.data.prompts import Prompt
from outrider.extras.datasets.reading import collect, numbered, spaced


@checked("data")
def csv(
    path: Annotated[str, ExistingFile()],
    limit: int | None = None,
    column: str | None = None,
    skip: bool = False,
    delimiter: Annotated[str, Like(".", "one character")] | None = None,
) -> list[Prompt]:
    """Returns the prompts in a CSV file; its first line names the columns, like keys of `jsonl`.

    path: the file.
    column, limit, skip: as for `jsonl`.
    delimiter: the character between columns. Defaults to a tab in a .tsv file, and a comma
        otherwise.

    Raises:
        ConfigError: the file is missing, empty or no text, or a row is in no known form.
    """
    delimiter = delimiter or ("\t" if path.endswith(".tsv") else ",")
    content = _read_text(path).removeprefix("\ufeff")
    # A column may hold any text. The limit is the process': others may have set a higher one.
    files.field_size_limit(max(files.field_size_limit(), len(content)))
    try:
        rows = [*files.DictReader(io.StringIO(content), delimiter=delimiter, strict=True)]
    except files.Error as error:
        raise ConfigError(f"data.path={path!r}: expected a CSV file ({error})") from error
    filled = [{key: cell for key, cell in row.items() if key and cell} for row in rows]
    return spaced(collect(numbered(filled, path), path, column, skip=skip), limit)


@checked("data")
def lines(path: Annotated[str, ExistingFile()], limit: int | None = None) -> list[Prompt]:
    """Returns the lines of a text file, each a prompt; empty ones are left out.

    path: the file.
    limit: as for `csv`.

    Raises:
        ConfigError: the file is missing, empty, or not text.
    """
    content, name = _read_text(path).removeprefix("\ufeff"), Path(path).stem
    prompts = [
        Prompt(str(number), name, (line.strip(),))
        for number, line in enumerate(content.split("\n"), start=1)
        if line.strip()
    ]
    require(len(prompts) > 0, "data.path", path, "at least one line in it")
    return spaced(prompts, limit)


@checked("data")
def text(
    path: Annotated[str, ExistingFile()], words: Count = 200, limit: Count | None = None
) -> list[Prompt]:
    """Returns chunks of a text file, for the target to continue.

    path: the file. Use `chat=false` with it.
    words: the length of a chunk.
    limit: as for `csv`.

    Raises:
        ConfigError: the file is missing, empty, or not text.
    """
    file, content = Path(path).expanduser(), _read_text(path)
    # Cut the text itself rather than join its words, so that white space inside a chunk is kept.
    starts = _word_starts(content)
    require(len(starts) > 0, "data.path", path, "at least one word in it")
    cuts = [*starts[::words], len(content)]
    chunks = [content[start:end].strip() for start, end in itertools.pairwise(cuts)]
    return spaced([Prompt(str(i), file.stem, (chunk,)) for i, chunk in enumerate(chunks, 1)], limit)


def _read_text(path: str) -> str:
    """Returns a file's content; raises `ConfigError` if it is not in UTF-8."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"data.path={path!r}: expected text in UTF-8 ({error.reason})") from error


def _word_starts(content: str) -> list[int]:
    """Returns the position of each word's first character."""
    starts, position = [], 0
    for word in content.split():
        position = content.index(word, position)
        starts.append(position)
        position += len(word)
    return starts
