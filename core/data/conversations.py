"""Conversations with tools, which are replayed: each answer is asked for after what came before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from outrider.base.contents import strict_json
from outrider.base.errors import ConfigError, refusing, require
from outrider.data.records import (
    Form,
    Record,
    has_tools,
    refuse_tools,
    role_of,
    speaking,
    text_in_parts,
)


@final
@dataclass(frozen=True, slots=True)
class Replay:
    """A conversation as it was, for the tokenizer's chat template.

    messages: each with a role, its content, and what else it has, such as calls of tools.
    tools: those that the template is given.
    ends: for each turn, how many messages come before its answer.
    """

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Any, ...]
    ends: tuple[int, ...]

    def turns(self) -> tuple[str, ...]:
        """Returns for each turn the text of the message that it answers, or else its role."""
        answered = [self.messages[end - 1] for end in self.ends]
        return tuple(str(message["content"] or message["role"]) for message in answered)


def replay_of(record: Record, form: Form, where: str) -> Replay | None:
    """Returns the conversation in a record of messages with tools, None for any other record.

    where: names the record in messages.

    Raises `ConfigError` if a message has no known role or no text, or tools are not JSON.
    """
    said, place = record[form.column], f"{where}: {form.column}"
    if not isinstance(said, list) or not said or not all(map(speaking, said)):
        return None
    if not any(map(has_tools, (record, *said))):
        return None
    refuse_tools(record, f"{where}: ", but="tools")
    tools = _parsed(record.get("tools") or [], f"{where}: tools")
    require(isinstance(tools, list), f"{where}: tools", tools, "a list")
    if system := record.get("system") or record.get("system_prompt"):
        said = [{"role": "system", "content": system}, *said]
    messages = [_message(message, f"{place}[{number}]") for number, message in enumerate(said)]
    roles = [message["role"] for message in messages]
    ends = [end for end, role in enumerate([*roles, "assistant"]) if role == "assistant"]
    ends = [end for end in ends if end and roles[end - 1] in ("user", "tool")]
    require(len(ends) > 0, place, roles, "an answer to a user or a tool")
    return Replay(tuple(messages), tuple(tools), tuple(ends))


def _message(message: Record, where: str) -> dict[str, Any]:
    """Returns a message with the names that chat templates read; all else of it stays."""
    role, key, content = role_of(message, where)
    refuse_tools(message, f"{where}.", but="tool_calls")
    beside = {name: it for name, it in message.items() if name not in (key, content) and it}
    if "tool_calls" in beside:
        beside["tool_calls"] = [_call(call, where) for call in beside["tool_calls"]]
    text = message.get(content)
    said = "" if text is None else text_in_parts(text, f"{where}.{content}")
    return {**beside, "role": role, "content": said}


def _call(call: Any, where: str) -> dict[str, Any]:
    """Returns a call with its arguments as an object, which templates write as they do others."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or "name" not in function:
        raise ConfigError(f"{where}.tool_calls={call!r:.60}: expected calls of functions by name")
    arguments = _parsed(function.get("arguments") or {}, f"{where}.arguments")
    return {**call, "function": {**function, "arguments": arguments}}


def _parsed(value: Any, where: str) -> Any:
    """Returns what a string of JSON holds, or the value itself."""
    with refusing(f"{where}={value!r:.60}: expected JSON", ValueError):
        return strict_json(value) if isinstance(value, str) else value
