"""Rows that others train on: conversations, or ids with a mask of what to learn."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outrider.base.errors import ConfigError, is_int, message_of, require
from outrider.base.json_values import json_in
from outrider.contract.target import Target
from outrider.data.jsonl import json_lines
from outrider.data.reading import numbered
from outrider.extras.training.conversations import answered
from outrider.extras.training.generated_texts import Text
from outrider.targets.passes.windows import context_window

SAVED = "state.json"
"""Names the files of a data set that the datasets library has saved to a folder."""

MASKED = {"input_ids", "loss_mask"}
TALKS = ("conversations", "messages")
"""The columns of rows: ids and their mask, as speculators prepares them, or conversations."""


def read_rows(path: str, target: Target, limit: int) -> list[Text]:
    """Returns the first texts in a file or a folder, at most `limit`.

    path: a file of JSON lines, a parquet file, or a folder that the datasets library has saved.

    A row with `input_ids` and `loss_mask` is a text of which the ids with a 1 are learned. A row
    with `conversations` or `messages` is a text for each answer in it, of which the answer is
    learned; messages are of ShareGPT's form or OpenAI's. What goes past the target's longest text
    is cut off.

    Raises:
        ConfigError: there is no such file, it is empty or damaged, or a row is in neither form.
    """
    texts: list[Text] = []
    for where, row in _records(path):
        if isinstance(row, ConfigError):
            raise row
        texts += _texts(row, where, target)
        if len(texts) >= limit:
            break
    require(len(texts) > 0, "recipe.rows", path, "at least one row with something to learn")
    return texts[:limit]


def _records(path: str) -> Iterator[tuple[str, Any]]:
    """Yields the rows, each with its place, or the error of reading it."""
    place = Path(path).expanduser()
    if place.is_file() and place.suffix == ".parquet":
        return numbered(_tables([place]), path)
    if place.is_file():
        return json_lines(path)
    expected = "a file, or a folder that the datasets library has saved"
    require((place / SAVED).is_file(), "recipe.rows", path, expected)
    try:
        names = [file["filename"] for file in json_in(place / SAVED)["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{place / SAVED}: damaged, expected the names of files") from error
    return numbered(_tables([place / name for name in names]), path)


def _tables(files: list[Path]) -> Iterator[dict[str, Any]]:
    """Yields the rows of parquet files, or of Arrow's streams."""
    import pyarrow
    from pyarrow import parquet

    for file in files:
        try:
            if file.suffix == ".parquet":
                batches = parquet.ParquetFile(file).iter_batches()
            else:
                batches = pyarrow.ipc.open_stream(pyarrow.memory_map(str(file)))
            for batch in batches:
                yield from batch.to_pylist()
        except (pyarrow.ArrowException, OSError) as error:
            line = message_of(error)
            raise ConfigError(f"{file}: expected a table that can be read ({line})") from error


def _texts(row: Any, where: str, target: Target) -> list[Text]:
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}: expected an object, got {row!r:.60}")
    if row.keys() >= MASKED:
        texts = [masked_text(row["input_ids"], row["loss_mask"], where, target.vocab_size)]
    else:
        column = next((name for name in TALKS if row.get(name)), None)
        if column is None:
            names = ", ".join(map(str, row)) or "none"
            expected = "input_ids and loss_mask, or conversations, or messages"
            raise ConfigError(f"{where}: expected {expected}, got {names}")
        texts = answered(row[column], f"{where}: {column}", target)
    window = context_window(target.model)
    return [cut(text, window) for text in texts] if window is not None else texts


def masked_text(ids: Any, mask: Any, where: str, size: int) -> Text:
    """Returns the text of a row with a mask. size: of the vocabulary.

    Raises:
        ConfigError: these are no lists of ids and of 0 and 1, or not of one length.
    """
    is_mask = isinstance(mask, list) and all(value in (0, 1) for value in mask)
    mask = [int(value) for value in mask] if is_mask else mask
    for name, values, bound in (("input_ids", ids, size), ("loss_mask", mask, 2)):
        is_valid = isinstance(values, list) and all(is_int(x) and 0 <= x < bound for x in values)
        expected = f"a list of whole numbers from 0 to {bound - 1}"
        require(is_valid, f"{where}: {name}", values, expected)
    if len(ids) != len(mask):
        raise ConfigError(
            f"{where}: loss_mask has {len(mask)} entries: expected {len(ids)}, one for each id"
        )
    start = mask.index(1) if 1 in mask else len(ids)
    gaps = [position for position in range(start, len(mask)) if mask[position] == 0]
    last = len(mask) - 1 - mask[::-1].index(1) if 1 in mask else len(mask)
    answer = max((gap + 1 for gap in gaps if gap < last), default=start)
    return Text(ids, start, answer, mask if gaps else None)


def cut(text: Text, length: int) -> Text:
    """Returns the first ids of a text, at most `length`."""
    if len(text.ids) <= length:
        return text
    mask = None if text.mask is None else text.mask[:length]
    return Text(text.ids[:length], min(text.start, length), min(text.answer, length), mask)
