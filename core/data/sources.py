"""Prompts from parquet files and from the Hugging Face hub."""

from pathlib import Path

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
        rows = tables.read_table(file).to_pylist()
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        line = message_of(error)
        raise ConfigError(
            f"data.path={path!r}: expected a parquet file that can be read ({line})"
        ) from error
    return spaced(collect(numbered(rows, path), path, column, skip=skip), limit)


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
