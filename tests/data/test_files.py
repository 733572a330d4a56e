"""Prompts are read from tables, texts and the hub, and each thing that is wrong is one line."""

import sys
from csv import field_size_limit
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from outrider import ConfigError
from outrider.data import files
from outrider.data.files import csv, lines, text
from outrider.data.prompts import Prompt
from outrider.plugins.config import build


def test_a_text_is_cut_between_words(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("one two\n\nthree  four five\n", encoding="utf-8")
    assert text(str(path), words=2) == [
        Prompt("1", "book", ("one two",)),
        Prompt("2", "book", ("three  four",)),
        Prompt("3", "book", ("five",)),
    ]
    assert len(text(str(path), words=1, limit=2)) == 2
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


LINE = {"question_id": 7, "category": "chat", "turns": ["Hello", "And then?"]}


def test_a_parquet_file_has_the_same_forms(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    rows = [LINE, LINE | {"question_id": 8, "turns": ["x"]}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert files.parquet(str(path)) == [
        Prompt("7", "chat", ("Hello", "And then?")),
        Prompt("8", "chat", ("x",)),
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"said": "x"}]), path)
    with pytest.raises(ConfigError, match=r"data\.parquet, row 1: expected question_id and"):
        files.parquet(str(path))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="expected a parquet file that can be read") as caught:
        files.parquet(str(path))
    assert "\n" not in str(caught.value)


def test_a_parquet_file_of_many_rows_is_read_as_far_as_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty million rows may be a file of some KB."""
    path, made = tmp_path / "data.parquet", list[int]()
    rows = pyarrow.table({"prompt": pyarrow.array(map(str, range(200_000)))})
    pyarrow.parquet.write_table(rows, path)
    collect = files.collect

    def counted(items: Any, *rest: Any, **more: Any) -> Any:
        listed = [*items]
        made.append(len(listed))
        return collect(listed, *rest, **more)

    monkeypatch.setattr(files, "collect", counted)
    found = files.parquet(str(path), limit=4)
    texts = ("0", "50000", "100000", "150000")
    assert [prompt.turns for prompt in found] == [(text,) for text in texts]
    assert found[1].id.endswith("row 50001")
    assert made == [4]


def test_the_hub_is_read_through_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("datasets")
    rows = [{"instruction": "Name three rivers."}, {"instruction": "And lakes."}]

    def load_dataset(name: str, subset: str | None, split: str) -> list[dict[str, str]]:
        if name != "some/set":
            raise FileNotFoundError("no such\nset")
        assert (subset, split) == (None, "test")
        return rows

    library.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", library)
    prompts = files.hub("some/set")
    chosen = files.hub("some/set", column="instruction")
    assert [prompt.turns for prompt in chosen] == [prompt.turns for prompt in prompts]
    assert [prompt.turns for prompt in prompts] == [("Name three rivers.",), ("And lakes.",)]
    with pytest.raises(ConfigError, match=r"row 1: data\.column='text': there are: instruction"):
        files.hub("some/set", column="text")
    with pytest.raises(ConfigError, match=r"data\.name='gone' can't be loaded \(no such set\)"):
        files.hub("gone")
    with pytest.raises(ConfigError, match=r"data=hub needs datasets: pip install 'outrider\[hub\]"):
        build({"_target_": "outrider.data.files.hub", "name": "some/set"})
