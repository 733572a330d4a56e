"""Parquet files and the hub hold prompts in the same forms as other files."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from outrider import ConfigError
from outrider.data import sources
from outrider.data.prompts import Prompt
from outrider.plugins.config import build

LINE = {"question_id": 7, "category": "chat", "turns": ["Hello", "And then?"]}


def test_a_parquet_file_has_the_same_forms(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    rows = [LINE, LINE | {"question_id": 8, "turns": ["x"]}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert sources.parquet(str(path)) == [
        Prompt("7", "chat", ("Hello", "And then?")),
        Prompt("8", "chat", ("x",)),
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"said": "x"}]), path)
    with pytest.raises(ConfigError, match=r"data\.parquet, row 1: expected question_id and"):
        sources.parquet(str(path))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="expected a parquet file that can be read") as caught:
        sources.parquet(str(path))
    assert "\n" not in str(caught.value)


def test_a_parquet_file_of_many_rows_is_read_as_far_as_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty million rows may be a file of some KB."""
    path, made = tmp_path / "data.parquet", list[int]()
    rows = pyarrow.table({"prompt": pyarrow.array(map(str, range(200_000)))})
    pyarrow.parquet.write_table(rows, path)
    collect = sources.collect

    def counted(items: Any, *rest: Any, **more: Any) -> Any:
        listed = [*items]
        made.append(len(listed))
        return collect(listed, *rest, **more)

    monkeypatch.setattr(sources, "collect", counted)
    found = sources.parquet(str(path), limit=4)
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
    prompts = sources.hub("some/set")
    chosen = sources.hub("some/set", column="instruction")
    assert [prompt.turns for prompt in chosen] == [prompt.turns for prompt in prompts]
    assert [prompt.turns for prompt in prompts] == [("Name three rivers.",), ("And lakes.",)]
    with pytest.raises(ConfigError, match=r"row 1: data\.column='text': there are: instruction"):
        sources.hub("some/set", column="text")
    with pytest.raises(ConfigError, match=r"data\.name='gone' can't be loaded: no such set"):
        sources.hub("gone")
    with pytest.raises(
        ConfigError, match=r"data=hub needs datasets: pip install 'outrider\[hub\]'"
    ):
        build({"_target_": "outrider.data.sources.hub", "name": "some/set"})
