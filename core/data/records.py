"""Finds the user's turns in a record of a data set, in any of the common forms."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from outrider.base.errors import ConfigError, nearest, require

Record = Mapping[str, Any]

ROLES = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bing", "bard"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation"), "tool"),
}
"""The role in chat templates of each speaker, by the names of OpenAI and ShareGPT."""

SPEAKERS, TEXTS = ("role", "from"), ("content", "value")
"""The keys of a message for its speaker and its text: OpenAI's, and ShareGPT's."""

NO_TEXTS = ("tools", "tool_calls", "functions", "function_call")
EMPTY: tuple[Any, ...] = (None, [], {}, "", "[]")
"""The keys of what a conversation may have beside its texts, and what stands for nothing."""


@final
@dataclass(frozen=True, slots=True)
class Form:
    """A form of records: how it is recognised, and where its text is.

    keys: the keys that a record of this form has.
    column: the key that holds the prompt.
    category: the category of its prompts, unless a record has its own.
    """

    name: str
    keys: tuple[str, ...]
    column: str
    category: str


FORMS = (
    Form("Spec-Bench", ("question_id", "category", "turns"), "turns", "prompt"),
    Form("UltraChat", ("prompt", "messages"), "messages", "chat"),
    Form("HumanEval", ("task_id", "prompt"), "prompt", "code"),
    Form("plain", ("prompt",), "prompt", "prompt"),
    Form("MBPP", ("task_id", "text", "code"), "text", "code"),
    Form("GSM8K", ("question", "answer"), "question", "math"),
    Form("OpenAI", ("messages",), "messages", "chat"),
    Form("ShareGPT", ("conversations",), "conversations", "chat"),
    Form("Alpaca", ("instruction",), "instruction", "instruction"),
)
"""The forms, in the order in which they are tried."""

LISTS = {
    "turns": "a list of strings, each some text",
    "messages": "a list of messages",
    "conversations": "a list of messages",
}
"""The columns that hold a list, each with what is expected there."""

BEFORE = ("system", "system_prompt", "instruction")
AFTER = ("context", "input")
"""The keys of texts that come before and after the first turn."""

IDS = ("question_id", "task_id", "id")
"""The keys that may hold the id of a prompt."""


def form_of(record: Any, where: str, column: str | None) -> Form:
    """Returns the form of a record.

    where: names the record in messages.
    column: the column that holds the prompt, for records in no form or with another prompt than the
        form's. None for the form's own.

    Raises `ConfigError` if the record is no object, has no such column, or is in none of the forms.
    """
    if not isinstance(record, Mapping):
        raise ConfigError(f"{where}: expected an object with prompt, got {record!r:.60}")
    if column is not None:
        if column not in record:
            names = map(str, record)
            raise ConfigError(f"{where}: data.column={column!r}: {nearest(column, names)}")
        return Form("column", (), column, "prompt")
    held = {key for key, value in record.items() if value not in (None, "")}
    for keys in (held, record.keys()):
        for form in FORMS:
            if keys >= {*form.keys}:
                return form
    known = ", or ".join(f"{' and '.join(form.keys)} ({form.name})" for form in FORMS)
    raise ConfigError(f"{where}: expected {known}; {_hint(record)}")


def _hint(record: Record) -> str:
    """Returns what to do about a record in no form: the key that may be a typo, or the setting."""
    columns, keys = {form.column for form in FORMS}, [*map(str, record)]
    for key in keys:
        meant = difflib.get_close_matches(key, columns, n=1, cutoff=0.7)
        if meant and key not in (*columns, *IDS):
            return f"did you mean {meant[0]!r} by {key!r}?"
    return f"data.column=KEY names the key of the prompt, out of {', '.join(keys) or 'none'}"


def turns_of(record: Record, form: Form, where: str) -> tuple[str, ...]:
    """Returns the user's turns in a record of a form.

    A string is one turn, and a list of strings several. In a list of messages, the turns are the
    user's, and the system's message is put before the turn that follows it. So is a system prompt
    of its own, or an instruction; a context or an input, as Dolly's and Alpaca's, follows the first
    turn, unless it is that: a list of texts as paragraphs, other lists and objects as JSON.

    Raises `ConfigError` if there is no text where the form has it, or tools are beside it.
    """
    refuse_tools(record, f"{where}: ")
    turns = _turns_of_column(record, form, where)
    texts = {**record} | {key: _context(record.get(key)) for key in AFTER}
    beside = (
        [text_beside(texts.get(key), f"{where}: {key}") for key in keys if key != form.column]
        for keys in (BEFORE, AFTER)
    )
    before, after = ([text for text in each if text not in ("", turns[0])] for each in beside)
    return ("\n\n".join([*before, turns[0], *after]), *turns[1:])


def _context(value: Any) -> Any:
    """Returns a context as a text if it is a list or an object, such as HotpotQA's paragraphs."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n\n".join(value)
    is_nested = isinstance(value, list | Mapping) and value
    return json.dumps(value, ensure_ascii=False, default=str) if is_nested else value


def text_beside(value: Any, where: str) -> str:
    """Returns a text that belongs to a prompt, which may be a number; empty if there is none.

    where: names it in messages.

    Raises `ConfigError` if it is neither a text nor a number.
    """
    if value is None or value == [] or value == {}:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f"{where}={value!r:.60}: expected a text")
    return str(value).strip() and str(value)


def has_tools(record: Record) -> bool:
    """Returns whether a record or a message has tools or calls of them, or is a tool's."""
    is_tool = any(ROLES.get(str(record.get(key))) == "tool" for key in SPEAKERS)
    return is_tool or any(record.get(key) not in EMPTY for key in NO_TEXTS)


def refuse_tools(record: Record, where: str, but: str = "") -> None:
    """Raises `ConfigError` if a record or a message has tools, or calls of them.

    but: the one key that it may have them under.
    """
    for key in NO_TEXTS:
        if key != but and record.get(key) not in EMPTY:
            expected = "expected none, only texts are read"
            raise ConfigError(f"{where}{key}={record[key]!r:.60}: {expected}")


def _turns_of_column(record: Record, form: Form, where: str) -> tuple[str, ...]:
    column, value = form.column, record[form.column]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and value:
        if all(map(_is_text, value)):
            return tuple(value)
        if column != "turns":
            return _turns_of_messages(value, f"{where}: {column}")
    if column in LISTS or not _is_text(value):
        expected = LISTS.get(column, "some text")
        raise ConfigError(f"{where}: {column}={value!r}: expected {expected}")
    return (value,)


def _turns_of_messages(messages: Sequence[Any], where: str) -> tuple[str, ...]:
    """Returns the user's turns in messages of OpenAI's form or ShareGPT's."""
    preface: list[str] = []
    turns: list[str] = []
    for number, message in enumerate(messages):
        role, _, content = role_of(message, place := f"{where}[{number}]")
        refuse_tools(message, f"{place}.")
        if role == "assistant":
            continue
        text = text_in_parts(message.get(content), f"{place}.{content}")
        require(_is_text(text), f"{place}.{content}", text, "text")
        if role == "user":
            turns.append("\n\n".join([*preface, text]))
            preface = []
        else:
            preface.append(text)
    if not turns or preface:
        place = " after that of the system" if preface else ""
        raise ConfigError(f"{where}: expected a message of the user{place}, there is none")
    return tuple(turns)


def speaking(message: Any) -> tuple[str, str] | None:
    """Returns the keys of a message for its speaker and its text; None if it is no message."""
    if not isinstance(message, Mapping):
        return None
    pairs = [(key, text) for key in SPEAKERS for text in TEXTS if key in message]
    return next((pair for pair in pairs if pair[1] in message), pairs[0] if pairs else None)


def role_of(message: Any, where: str) -> tuple[str, str, str]:
    """Returns the role of who speaks in a message, and the keys of the speaker and the text.

    Raises `ConfigError` if it is no message, or the speaker is not known.
    """
    pair = speaking(message)
    if pair is None:
        raise ConfigError(f"{where}={message!r:.60}: expected role and content, or from and value")
    speaker = str(message[pair[0]])
    if speaker not in ROLES:
        raise ConfigError(f"{where}.{pair[0]}={speaker!r}: {nearest(speaker, ROLES)}")
    return ROLES[speaker], *pair


def text_in_parts(value: Any, where: str) -> str:
    """Returns the text of a message, which may be a list of parts.

    Raises `ConfigError` if a part is no text.
    """
    parts = value if isinstance(value, list) else [{"type": "text", "text": value}]
    texts: list[Any] = [
        part.get("text")
        for part in parts
        if isinstance(part, Mapping) and part.get("type") == "text"
    ]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{where}={value!r:.60}: expected text")
    return "\n".join(texts)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
