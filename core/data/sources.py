"""Prompts from parquet files and from the Hugging Face hub."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from outrider.base.bounds import ExistingFile, checked
from outrider.base.contents import fault_of
from outrider.base.errors import ConfigError, message_of
from outrider.data.prompts import Prompt
from outrider.data.reading import collect, numbered, spaced


@checked("data")
def parquet(
    path: ExistingFile,
    limit: int | None = None,
    column: str | None = None,
    skip: bool = False,
) -> list[Prompt]:
    """Returns the prompts in a parquet file; its columns are named like the keys of `jsonl`.

    path: the file.
    column, limit, skip: as for `jsonl`.

    Raises:
        ConfigError: the file is missing, empty or damaged, or a row is in no known form.
    """
    import pyarrow
    from pyarrow import parquet as tables

    file = Path(path).expanduser()
    if fault := fault_of(file):
        raise ConfigError(f"data.path={path!r}: {fault}")
    try:
        with tables.ParquetFile(file) as table:
            # Prompts that are skipped are known once their rows are read.
            wanted = spaced(range(table.metadata.num_rows), None if skip else limit)
            rows = [*_rows_at(table, wanted)]
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        line = message_of(error)
        raise ConfigError(
            f"data.path={path!r}: expected a parquet file that can be read ({line})"
        ) from error
    named = ((f"{path}, row {number + 1}", row) for number, row in rows)
    return spaced(collect(named, path, column, skip=skip), limit)


def _rows_at(table: Any, wanted: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Yields some rows of a parquet file, each with its number; a part is in memory at a time."""
    end = 0
    for batch in table.iter_batches():
        start, end = end, end + len(batch)
        own = wanted[bisect_left(wanted, start) : bisect_left(wanted, end)]
        if own:
            chosen = batch.take([row - start for row in own])
            yield from zip(own, chosen.to_pylist(), strict=True)


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

    Raises:
        ConfigError: the data set can't be loaded.
    """
    import datasets  # type: ignore[import-not-found,unused-ignore]

    try:
        rows = [dict(row) for row in datasets.load_dataset(name, subset, split=split)]
    except Exception as error:  # many libraries are involved, each with its own errors
        line = message_of(error)
        raise ConfigError(f"data.name={name!r} can't be loaded: {line}") from error
    return spaced(collect(numbered(rows, name), name, column, skip=skip), limit)
