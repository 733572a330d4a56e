"""How an answer to a task is scored: by what the record says that is right."""

import ast
import json
import re
from collections.abc import Callable, Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any

from jsonschema import Draft202012Validator

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
BLOCK = re.compile(r"```(?:\w+)?\n(.*?)(?:```|\Z)", re.DOTALL)
LETTER = re.compile(r"\b([A-J])\b")

REFUSALS = re.compile(
    r"\bi\s+(?:can['\u2019]?t|cannot|can not|won['\u2019]?t|will not|am unable|must decline)"
    r"|\bi['\u2019]m (?:sorry|unable|not able)|unable to (?:help|assist)",
    re.IGNORECASE,
)
"""How models decline."""

THOUGHT = "</think>"
"""What ends the thoughts before an answer."""


def after_thought(text: str) -> str:
    """Returns the answer of a text, without the thoughts before it."""
    return text.rpartition(THOUGHT)[2].strip()


def is_answer(text: str, answer: Any) -> bool:
    """Returns whether the last number of a text is the answer, or the text is, if it is no number.

    >>> is_answer("3 and 4 are 7, so $1,200.0", 1200)
    True
    """
    wanted = str(answer).rpartition("####")[2].strip()  # as GSM8K writes it
    if NUMBER.fullmatch(wanted):
        found = NUMBER.findall(after_thought(text))
        return bool(found) and float(found[-1].replace(",", "")) == float(wanted.replace(",", ""))
    return after_thought(text).strip(" .").casefold() == wanted.strip(" .").casefold()


def is_choice(text: str, choice: str) -> bool:
    """Returns whether the first letter that stands alone is the right one."""
    found = LETTER.search(after_thought(text))
    return found is not None and found[1] == choice


def is_json_of(text: str, schema: Mapping[str, Any]) -> bool:
    """Returns whether a text is JSON that a schema allows."""
    try:
        value = json.loads(after_thought(text))
    except JSONDecodeError:
        return False
    return bool(Draft202012Validator(schema).is_valid(value))


def is_call(text: str, call: Mapping[str, Any] | None) -> bool:
    """Returns whether a text calls the right tool with the right arguments; with None, no tool."""
    found = _calls(text)
    return found == ([] if call is None else [dict(call)])


def _calls(text: str) -> list[dict[str, Any]]:
    """Returns the calls in a text, which are objects with a name and arguments."""
    found, place = [], 0
    while (place := text.find("{", place)) >= 0:
        try:
            value, place = JSONDecoder().raw_decode(text, place)
        except JSONDecodeError:
            place += 1
            continue
        if isinstance(value, dict) and {"name", "arguments"} <= value.keys():
            given = value["arguments"]
            try:
                given = json.loads(given or "{}") if isinstance(given, str) else given
            except JSONDecodeError:
                given = None  # it was cut
            found.append({"name": value["name"], "arguments": given})
    return found


def defines(text: str, function: str) -> bool:
    """Returns whether the Python in a text has no error of syntax and defines a function.

    It is not run.
    """
    code = BLOCK.search(after_thought(text))
    try:
        tree = ast.parse(code[1] if code else after_thought(text))
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(it, ast.FunctionDef) and it.name == function for it in ast.walk(tree))


SCORES: dict[str, Callable[[str, Any], bool]] = {
    "choice": is_choice,
    "schema": is_json_of,
    "call": is_call,
    "function": defines,
    "refuses": lambda text, refuses: (REFUSALS.search(text) is not None) == refuses,
    "regex": lambda text, regex: re.fullmatch(regex, after_thought(text)) is not None,
    "answer": is_answer,
}
"""How a text is scored, by the key of the record that says what is right."""
