"""Terminal: text that others wrote, made safe to print."""

import re

from rich.text import Text

_CONTROLS = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that move the cursor, change colours, reverse text or can't be encoded; no newline."""


def visible(text: str) -> str:
    r"""Returns the text with every control character but the newline as its escape sequence.

    >>> visible("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def plain(text: object, style: str = "") -> Text:
    """Returns a text for rich to print as it stands: without markup and control characters."""
    return Text(visible(str(text)), style=style)
