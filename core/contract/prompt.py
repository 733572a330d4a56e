"""Prompt: what people hand over as one, as ids or as the turns of a chat."""

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

from outrider.base.calling import Unusable, calling
from outrider.base.errors import ANY_FAULT, ConfigError, TargetError, shown

TEXT = bytes | bytearray | memoryview | str

MESSAGE = {"role", "content"}
"""What a message of a chat has at least."""


def ids_of(prompt: Any) -> list[int]:
    """Returns the ids of a prompt: a list, a tensor or array of one row, or an encoding.

    Raises `ConfigError` for anything else.
    """
    with suppress(*ANY_FAULT):  # whatever an object's own methods raise
        ids: Any = prompt.get("input_ids") if isinstance(prompt, Mapping) else prompt
        ids = _plain(ids)
        if isinstance(ids, list | tuple) and len(ids) == 1:
            row = _plain(ids[0])
            ids = row if isinstance(row, list | tuple) else ids
        if isinstance(ids, Sequence) and not isinstance(prompt, TEXT):
            return [_id(token) for token in ids]
    expected = "text, or the ids of one prompt, which are whole numbers"
    raise ConfigError(f"prompt={shown(prompt)}: expected {expected}")


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _id(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def ids_of_text(tokenizer: Any, text: str, **options: Any) -> list[int]:
    """Returns the ids of a text, from a tokenizer that is called with `options`.

    Raises `TargetError` if the tokenizer fails, or returns no ids.
    """
    with calling("tokenizer", tokenizer):
        encoding = tokenizer(text, **options)
        try:
            return ids_of(encoding)
        except ConfigError:
            line = f"returned {shown(encoding)}, expected ids under 'input_ids'"
            raise Unusable(line) from None


def in_chat_template(tokenizer: Any, turns: Sequence[str]) -> str:
    """Returns turns of the user and answers, alternately, as a tokenizer's template writes them.

    Some templates read the text of a turn from a list of parts, since a part may be an image.

    Raises `TargetError` if the template fails, or leaves out the last turn.
    """
    for parts in (False, True):
        contents = [[{"type": "text", "text": turn}] if parts else turn for turn in turns]
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": it} for i, it in enumerate(contents)]
        text = rendered(tokenizer, messages)
        if turns[-1].strip() in text:
            return text
    raise TargetError(f"the chat template leaves out the prompt {turns[-1]!r:.60}")


def are_messages(prompt: Any) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Returns whether a prompt is a chat as people have it, a list of messages."""
    is_list = isinstance(prompt, list | tuple) and len(prompt) > 0
    return is_list and all(isinstance(item, Mapping) and {*item} >= MESSAGE for item in prompt)


def rendered(
    tokenizer: Any, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = ()
) -> str:
    """Returns messages as a tokenizer's template writes them, with the tools that may be called.

    Raises `TargetError` if the template fails, or leaves out a tool, a call or a tool's text.
    """
    with calling("chat template of", tokenizer, TargetError):
        text = str(
            tokenizer.apply_chat_template(
                list(messages),
                tokenize=False,
                add_generation_prompt=True,
                **({"tools": list(tools)} if tools else {}),
            )
        )
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    said = [tool.get("function", tool).get("name", "") for tool in (*tools, *calls)]
    said += [it["content"] for it in messages if it["role"] == "tool"]
    for part in (part for part in said if isinstance(part, str)):
        quoted = json.dumps(part, ensure_ascii=False)[1:-1]  # as some templates write it
        if part.strip() not in text and quoted not in text:
            raise TargetError(f"the chat template leaves out {part!r:.60} of a tool")
    return text


def check_ids(field: str, ids: Iterable[int], vocab_size: int) -> None:
    """Raises `ConfigError` for the first id that is not one of a vocabulary."""
    for token in ids:
        with suppress(TypeError):
            if 0 <= _id(token) < vocab_size:
                continue
        raise ConfigError(f"{field}={shown(token)}: expected ids below {vocab_size}")
