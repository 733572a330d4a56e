"""Hydra takes prompts and grammars as they were typed."""

import re
from typing import Any

from outrider.base.errors import is_int

QUOTATION = ("'", '"', "[")
"""How a quotation or a list begins."""

TYPED = ("constraint.pattern", "constraint.schema", "constraint.text")
"""The settings, besides the prompt, whose text is taken as typed."""


def quote_prompt(override: str) -> str:
    """Returns the override, quoted if it is a prompt or a grammar, so that Hydra reads it as typed.

    Hydra would read a comma as a sweep, a quotation as its content, and ${...} as a reference. A
    prompt in quotation marks, or a list of prompts or ids in brackets, is taken as one if all of it
    is; otherwise the marks and brackets are a part of the text.
    """
    key, equals, text = override.partition("=")
    if key in TYPED and equals:
        return f"{key}={_literal(text)}"
    if key != "prompt" or not equals:
        return override
    return f"prompt={_literal(_content(override) if text[:1] in QUOTATION else text)}"


def _content(override: str) -> Any:
    """Returns a prompt that may be a quotation, or a list of prompts or ids, as Hydra reads it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        value: Any = OverridesParser.create().parse_override(override).value()
    except HydraException:
        return override.partition("=")[2]
    items = [value] if isinstance(value, str) else value
    is_prompt = all(isinstance(item, str | list) or is_int(item) for item in items)
    return value if is_prompt else override.partition("=")[2]


def _literal(value: Any) -> str:
    """Returns a prompt, or a list of prompts or ids, in Hydra's grammar."""
    if isinstance(value, list):
        return f"[{','.join(map(_literal, value))}]"
    if not isinstance(value, str):
        return str(value)

    # A backslash stands for itself, except before what is escaped, where it must be doubled.
    def escape_mark(match: re.Match[str]) -> str:
        return 2 * match[1] + (f"\\{match[2]}" if match[2] else "")

    return '"' + re.sub(r'(\\*)(\$\{|"|\Z)', escape_mark, value) + '"'
