"""Rows that others train on: conversations, or ids with a mask of what to learn."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.base.contents import fault_of, json_in
from outrider.base.errors import ConfigError, is_int, refusing, require
from outrider.base.terminal import remark
from outrider.contract.context import Tokens
from outrider.contract.target import Target
from outrider.data.jsonl import json_lines
from outrider.data.reading import numbered
from outrider.data.records import (
    SPEAKERS,
    TEXTS,
    refuse_tools,
    role_of,
    text_beside,
)
from outrider.extras.training.generated_texts import Text
from outrider.targets.passes.masks import context_window

Turns = list[dict[str, Any]]

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
    is cut off, and the first id, which nothing comes before, is never learned. Texts of which
    nothing is learned are left out; a line counts them.

    Raises `ConfigError` if there is no such file, it is empty or damaged, a row is in neither form,
    or none has anything to learn.
    """
    texts: list[Text] = []
    rows, number, cuts, window = 0, 0, 0, context_window(target.model)
    hidden = set[str]()
    for where, row in _records(path):
        if isinstance(row, ConfigError):
            raise row
        rows += 1
        hidden |= _hidden(row, target)
        for text in _texts(row, where, target):
            if is_long := window is not None and len(text.ids) > window:
                mask = None if text.mask is None else text.mask[:window]
                places = min(text.start, window), min(text.answer, window)
                text = Text(text.ids[:window], *places, mask)
            texts += [replace(text, row=number)] if any(text.own) else []
            number, cuts = number + 1, cuts + is_long
        if len(texts) >= limit:
            break
    expected = f"at least one row with something to learn, of {rows}"
    require(len(texts) > 0, "recipe.rows", path, expected)
    left_out, texts = number - len(texts), texts[:limit]
    tokens = sum(sum(text.own) for text in texts)
    line = f"{len(texts)} of {limit} texts, from {rows} rows, with {tokens} tokens to learn"
    rest = f"{left_out} left out, with none; {cuts} cut to the target's longest text"
    if hidden:
        rest += f"; the chat template does not show {', '.join(sorted(hidden))} of messages"
    remark(f"{path}: {line}; {rest}")
    return texts


def _hidden(row: Any, target: Target) -> set[str]:
    """Returns the keys of a row's messages that the target's chat template does not show."""
    shown = re.findall(r"\w+", str(getattr(target.tokenizer, "chat_template", None)))
    talks = [row.get(name) for name in TALKS] if isinstance(row, Mapping) else []
    messages = [it for talk in talks if isinstance(talk, list) for it in talk]
    keys = {key for it in messages if isinstance(it, Mapping) for key in _filled(it)}
    return keys - {*SPEAKERS, *TEXTS, *shown}


def _filled(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if value not in (None, "", [], {})}


def _records(path: str) -> Iterator[tuple[str, Any]]:
    """Yields the rows, each with its place, or the error of reading it."""
    place = Path(path).expanduser()
    if place.is_file() and place.suffix == ".parquet":
        return numbered(_tables([place]), path)
    if place.is_file():
        return json_lines(path, "recipe.rows")
    expected = "a file, or a folder that the datasets library has saved"
    require((place / SAVED).is_file(), "recipe.rows", path, expected)
    line = f"{place / SAVED}: damaged, expected the names of files"
    with refusing(line, ValueError, KeyError, TypeError):
        names = [file["filename"] for file in json_in(place / SAVED)["_data_files"]]
    return numbered(_tables([place / name for name in names]), path)


def _tables(files: list[Path]) -> Iterator[dict[str, Any]]:
    """Yields the rows of parquet files, or of Arrow's streams."""
    import pyarrow
    from pyarrow import parquet

    for file in files:
        if file.is_file() and (fault := fault_of(file)):
            raise ConfigError(f"{file}: {fault}")
        line = f"{file}: expected a table that can be read"
        with refusing(line, pyarrow.ArrowException, OSError):
            if file.suffix == ".parquet":
                batches = parquet.ParquetFile(file).iter_batches()
            else:
                batches = pyarrow.ipc.open_stream(pyarrow.memory_map(str(file)))
            for batch in batches:
                yield from batch.to_pylist()


def _texts(row: Any, where: str, target: Target) -> list[Text]:
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}: expected an object, got {row!r:.60}")
    if row.keys() >= MASKED:
        return [masked_text(row["input_ids"], row["loss_mask"], where, target.vocab_size)]
    column = next((name for name in TALKS if row.get(name)), None)
    if column is None:
        names = ", ".join(map(str, row)) or "none"
        expected = "input_ids and loss_mask, or conversations, or messages"
        raise ConfigError(f"{where}: expected {expected}, got {names}")
    refuse_tools(row, f"{where}: ")
    beside = [text_beside(row.get(key), f"{where}: {key}") for key in ("system", "system_prompt")]
    system = [{"role": "system", "content": text} for text in beside if text][:1]
    return answered(row[column], f"{where}: {column}", target, system)


def masked_text(ids: Any, mask: Any, where: str, size: int) -> Text:
    """Returns the text of a row with a mask. size: of the vocabulary.

    Raises `ConfigError` if these are no lists of ids and of 0 and 1, or not of one length.
    """
    if isinstance(mask, list):
        mask = [int(value) if value in (0, 1) else value for value in mask]
    for name, values, bound in (("input_ids", ids, size), ("loss_mask", mask, 2)):
        is_valid = isinstance(values, list) and all(is_int(x) and 0 <= x < bound for x in values)
        expected = f"a list of whole numbers from 0 to {bound - 1}"
        require(is_valid, f"{where}: {name}", values, expected)
    expected = f"{len(ids)} entries, one for each id, of which there has to be one"
    require(len(mask) == len(ids) > 0, f"{where}: loss_mask", mask, expected)
    mask[0] = 0  # nothing comes before it
    learned = [position for position, value in enumerate(mask) if value]
    start = min(learned, default=len(ids))
    answer = max((position for position in learned if not mask[position - 1]), default=start)
    return Text(ids, start, answer, None if len(learned) == len(ids) - start else mask)


def answered(messages: Any, where: str, target: Target, system: Turns) -> list[Text]:
    """Returns a text for each answer in a conversation, as speculators 0.9 makes rows of them.

    The answer begins where the chat template's text of the conversation departs from that of what
    was said before it, with the template's prompt for an answer at its end. What opens a
    conversation is no answer.

    system: a message that precedes them, or none.

    Raises `ConfigError` if a message is in neither form, or the template can't be used, or changes
    what came before an answer.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ConfigError(f"{where}={messages!r:.60}: expected a list of messages")
    turns = [_turn(message, f"{where}[{number}]") for number, message in enumerate(messages)]
    texts = []
    for number, turn in enumerate(turns):
        if turn["role"] != "assistant" or number == 0:
            continue
        earlier = [*system, *turns[:number]]
        before = _rendered(target, earlier, where, prompt=True)
        ids = _rendered(target, [*earlier, turn], where, prompt=False)
        start = Tokens(before).shared(Tokens(ids))
        if start < len(before):  # such as an empty thought, where the answer has one of its own
            history = _rendered(target, earlier, where, prompt=False)
            if start < len(history) or ids[: len(history)] != history:
                raise ConfigError(
                    f"{where}[{number}]: the chat template changes what came before it: expected"
                    " input_ids and loss_mask for such a template"
                )
        texts.append(Text(ids, start, start))
    return texts


def _turn(message: Any, where: str) -> dict[str, Any]:
    role, speaker, content = role_of(message, where)
    refuse_tools(message, f"{where}.")
    text = message.get(content)
    require(isinstance(text, str), f"{where}.{content}", text, "text")
    beside = {key: it for key, it in _filled(message).items() if key not in (speaker, content)}
    return {**beside, "role": role, "content": text}


def _rendered(target: Target, turns: Turns, where: str, *, prompt: bool) -> list[int]:
    """Returns the ids of a conversation. prompt: whether to end with what asks for an answer."""
    tokenizer = target.tokenizer
    if tokenizer is None or not tokenizer.chat_template:
        expected = "a target with a chat template, or rows with input_ids and loss_mask"
        raise ConfigError(f"{where}: expected {expected}")
    # Templates raise errors of any kind.
    with refusing(f"{where}: the chat template refuses it", Exception):
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=prompt)
    return list(tokenizer(str(text), add_special_tokens=False)["input_ids"])
