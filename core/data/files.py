"""Prompts from files of tables and of text, and from the Hugging Face hub."""

import csv as files
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from outrider.base.bounds import Count, ExistingFile, checked
from outrider.base.contents import fault_of
from outrider.base.errors import ConfigError, refusing, require
from outrider.base.expectations import Like
from outrider.data.prompts import Prompt
from outrider.data.reading import collect, numbered, spaced, text_of


@checked("data")
def csv(
    path: ExistingFile,
    limit: int | None = None,
    column: str | None = None,
    skip: bool = False,
    delimiter: Annotated[str, Like(r'[^"\r\n]', "one character")] | None = None,
) -> list[Prompt]:
    """Returns the prompts in a CSV file; its first line names the columns, like keys of `jsonl`.

    path: the file.
    column, limit, skip: as for `jsonl`.
    delimiter: the character between columns. Defaults to a tab in a .tsv file, and a comma
        otherwise.

    Raises `ConfigError` if the file is missing, empty or no text, or a row is in no known form.
    """
    is_tsv = path.lower().removesuffix(".gz").endswith(".tsv")
    rows = _csv_rows(path, delimiter or ("\t" if is_tsv else ","))
    return spaced(collect(rows, path, column, skip=skip), limit)


def _csv_rows(path: str, delimiter: str) -> Iterator[tuple[str, Any]]:
    """Yields the rows of a CSV file, each with its place, or what is wrong with it."""
    content = text_of(path)
    # A column may hold any text. The limit is the process': others may have set a higher one.
    files.field_size_limit(max(files.field_size_limit(), len(content)))
    with refusing(f"data.path={path!r}: expected a CSV file", files.Error):
        rows = files.DictReader(io.StringIO(content), delimiter=delimiter, strict=True)
        names = [name.strip() for name in rows.fieldnames or ()]
        rows.fieldnames = names
        if twice := next((name for name in names if name and names.count(name) > 1), None):
            raise ConfigError(f"data.path={path!r}: two columns are named {twice!r}")
        if len(names) == 1 and (other := next((it for it in ";\t|," if it in names[0]), None)):
            raise ConfigError(
                f"data.path={path!r}: one column, {names[0]!r}; expected data.delimiter={other!r}"
            )
        for number, row in enumerate(rows, start=1):
            where = f"{path}, row {number}"
            if more := row.pop(None, None):
                reason = f"more cells than columns, such as {more[0]!r:.40}"
                yield where, ConfigError(f"{where}: {reason}; a text with {delimiter!r} is quoted")
            else:
                yield where, {name: cell for name, cell in row.items() if name}


@checked("data")
def parquet(
    path: ExistingFile, limit: int | None = None, column: str | None = None, skip: bool = False
) -> list[Prompt]:
    """Returns the prompts in a parquet file; its columns are named like the keys of `jsonl`.

    path: the file.
    column, limit, skip: as for `jsonl`.

    Raises `ConfigError` if the file is missing, empty or damaged, or a row is in no known form.
    """
    import pyarrow
    from pyarrow import parquet as tables

    file = Path(path).expanduser()
    if fault := fault_of(file):
        raise ConfigError(f"data.path={path!r}: {fault}")
    faults = (pyarrow.ArrowException, ValueError, OverflowError)
    with refusing(f"data.path={path!r}: expected a parquet file that can be read", *faults):
        table = tables.read_table(file)
        # Prompts that are skipped are known once their rows are read.
        wanted = spaced(range(table.num_rows), None if skip else limit)
        rows = table.take(wanted).to_pylist()
    named = ((f"{path}, row {it + 1}", row) for it, row in zip(wanted, rows, strict=True))
    return spaced(collect(named, path, column, skip=skip), limit)


def hub(
    name: str,
    split: str = "test",
    subset: str | None = None,
    column: str | None = None,
    limit: int | None = None,
    *,
    skip: bool = False,
) -> list[Prompt]:
    """Returns the prompts in a data set of the Hugging Face hub, or in a local copy of one.

    name: OWNER/SET on the hub, or a folder.
    split: the part of the data set.
    subset: its configuration, if it has several.
    column, limit, skip: as for `jsonl`.

    Raises `ConfigError` if the data set can't be loaded.
    """
    import datasets  # type: ignore[import-not-found,unused-ignore]

    # Many libraries are involved, each with its own errors.
    with refusing(f"data.name={name!r} can't be loaded", Exception):
        rows = [dict(row) for row in datasets.load_dataset(name, subset, split=split)]
    return spaced(collect(numbered(rows, name), name, column, skip=skip), limit)


@checked("data")
def lines(path: ExistingFile, limit: int | None = None) -> list[Prompt]:
    """Returns the lines of a text file, each a prompt; empty ones are left out.

    path: the file.
    limit: as for `csv`.

    Raises `ConfigError` if the file is missing, empty, or not text.
    """
    content, name = text_of(path), Path(path).stem
    prompts = [
        Prompt(str(number), name, (line.strip(),))
        for number, line in enumerate(content.split("\n"), start=1)
        if line.strip()
    ]
    require(len(prompts) > 0, "data.path", path, "at least one line in it")
    return spaced(prompts, limit)


@checked("data")
def text(path: ExistingFile, words: Count = 200, limit: Count | None = None) -> list[Prompt]:
    """Returns chunks of a text file, for the target to continue.

    path: the file. Use `chat=false` with it.
    words: the length of a chunk.
    limit: as for `csv`.

    Raises `ConfigError` if the file is missing, empty, or not text.
    """
    content, name = text_of(path), Path(path).stem
    # Cut the text itself rather than join its words, so that white space inside a chunk is kept.
    starts = [word.start() for word in re.finditer(r"\S+", content)]
    require(len(starts) > 0, "data.path", path, "at least one word in it")
    cuts = [*starts[::words], len(content)]
    chunks = [content[start:end].strip() for start, end in itertools.pairwise(cuts)]
    return spaced([Prompt(str(i), name, (chunk,)) for i, chunk in enumerate(chunks, 1)], limit)
