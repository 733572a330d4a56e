"""Text from elsewhere reaches the terminal unchanged, except for its control characters."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from outrider.base.terminal import divided, plain, visible


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


@pytest.mark.parametrize(("width", "parts"), [(100, 1), (50, 2), (36, 3), (24, 6)])
def test_a_table_without_room_is_divided_by_columns(
    width: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    table = Table("name", title="title", caption="caption")
    for run in range(6):
        table.add_column(f"run {run}", no_wrap=True)
    table.add_row("bigram", *(f"{run}.01-{run}.99" for run in range(6)))
    tables = divided(table)
    assert len(tables) == parts
    file = io.StringIO()
    Console(file=file, width=width).print(*tables)
    text = file.getvalue()
    assert text.count("bigram") == parts and text.count("caption") == 1 and "…" not in text
    assert [text.count(f"{run}.01-{run}.99") for run in range(6)] == [1] * 6
