"""Prompts are read from CSV files and texts, and each way that a file can be wrong is one line."""

from csv import field_size_limit
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.data.files import csv, lines, text
from outrider.data.prompts import Prompt


def test_a_text_is_cut_between_words(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("one two\n\nthree  four five\n", encoding="utf-8")
    assert text(str(path), words=2) == [
        Prompt("1", "book", ("one two",)),
        Prompt("2", "book", ("three  four",)),
        Prompt("3", "book", ("five",)),
    ]
    assert len(text(str(path), words=1, limit=2)) == 2
    with pytest.raises(ConfigError, match=r"data\.words=0: expected a whole number"):
        text(str(path), words=0)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="expected at least one word in it"):
        text(str(path))


def test_a_csv_file_names_its_columns(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rows.csv"
    content = '\ufeffid, prompt,category\n1,"Name three, or\nfour.",\n2,,chat\n3,Then?,chat\n'
    path.write_text(content, encoding="utf-8")
    prompts = csv(str(path), skip=True)
    assert prompts == [
        Prompt("1", "prompt", ("Name three, or\nfour.",)),
        Prompt("3", "chat", ("Then?",)),
    ]
    assert "1 of 3 records are skipped" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"rows\.csv, row 2: prompt='': expected some text"):
        csv(str(path))
    tabs = tmp_path / "rows.TSV"
    tabs.write_text("question\tanswer\n" + "x" * 200_000 + "\t3\n")
    assert csv(str(tabs))[0].turns == ("x" * 200_000,)
    tabs.write_text('prompt\n"never closed')
    with pytest.raises(ConfigError, match=r"rows\.TSV'?: expected a CSV file"):
        csv(str(tabs))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("prompt\nHello, you\n", "row 1: more cells than columns, such as ' you'"),
        ("prompt,prompt\na,b\n", "two columns are named 'prompt'"),
        ("id;prompt\n1;a\n", "one column, 'id;prompt'; expected data.delimiter=';'"),
    ],
)
def test_no_cell_is_dropped_without_a_word(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        csv(str(path))
    assert line in str(caught.value)


def test_each_line_of_a_file_is_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Name three rivers.\r\n\n And lakes?\n")
    assert lines(str(path)) == [
        Prompt("1", "mine", ("Name three rivers.",)),
        Prompt("3", "mine", ("And lakes?",)),
    ]
    path.write_text(" \n")
    with pytest.raises(ConfigError, match="at least one line in it"):
        lines(str(path))


def test_a_short_file_leaves_the_longest_column_that_others_may_read(tmp_path: Path) -> None:
    before = field_size_limit()
    (tmp_path / "short.csv").write_text("prompt\nhello\n")
    csv(str(tmp_path / "short.csv"))
    assert field_size_limit() == before
