"""Turns the docstrings of Outrider into Markdown, for the API reference of the site.

In a docstring, "gamma: the draft length" describes a parameter, and ">>>" begins an example.
"""

import inspect
import re
from collections.abc import Iterator

import griffe

FIELD = re.compile(r"^(\w+(?:, \w+)*): (.+)$")
"""A line that describes one name or several."""


def fields(docstring: str) -> dict[str, str]:
    """Returns by name what a docstring says of its parameters, each in one line."""
    meanings: dict[str, str] = {}
    names: list[str] = []
    for begun, line in _lines(docstring):
        if begun:
            names = begun
            shared = f"{_code(names)}: " if len(names) > 1 else ""
            meanings |= dict.fromkeys(names, shared + line.partition(": ")[2])
        elif line.startswith("    "):
            meanings |= {name: f"{meanings[name]} {line.strip()}" for name in names}
        else:
            names = []
    return meanings


def as_markdown(docstring: str) -> str:
    """Returns a docstring with its fields as a list and its examples as code."""
    lines: list[str] = []
    is_example = False
    for names, line in _lines(docstring):
        if line.startswith(">>> ") and not is_example:
            is_example = True
            lines.append("```pycon")
        elif is_example and not line:
            is_example = False
            lines.append("```")
        lines.append(f"- {_code(names)}: {line.partition(': ')[2]}" if names else line)
    return "\n".join([*lines, "```"] if is_example else lines)


def _lines(docstring: str) -> Iterator[tuple[list[str], str]]:
    """Yields each line behind the names that it describes, if any.

    Fields begin a paragraph or follow each other: elsewhere a colon is a colon.
    """
    may_begin = True
    for line in inspect.cleandoc(docstring).splitlines():
        match = FIELD.match(line) if may_begin else None
        yield match[1].split(", ") if match else [], line
        may_begin = match is not None or not line or (may_begin and line.startswith("    "))


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


class PlainDocstrings(griffe.Extension):
    """Hands the docstrings of all objects to mkdocstrings as Markdown."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
