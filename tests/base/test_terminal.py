"""Text from elsewhere reaches the terminal unchanged, except for its control characters."""

import io

import pytest
from rich.console import Console

from outrider.base.terminal import plain, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb\bc\td\x07", "a\\rb\\x08c\\td\\x07"),
        ("\x9b2J\u202eabc", "\\x9b2J\\u202eabc"),
        ("\udcff", "\\udcff"),
        ("two\nlines, é, 日本", "two\nlines, é, 日本"),
    ],
)
def test_control_characters_are_shown_as_escape_sequences(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_markup_is_text() -> None:
    file = io.StringIO()
    Console(file=file, width=80).print(plain("[/x] [bold]b[/]"))
    assert file.getvalue() == "[/x] [bold]b[/]\n"
