"""A damaged file is named before anything is read from it, in every format."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.data.benchmarks import deepspec, speed_bench
from outrider.data.files import csv, lines, parquet, text
from outrider.data.jsonl import jsonl
from outrider.data.prompts import prompt_text

ROW = '{"prompt": "the cat"}\n'
PACKED = gzip.compress(ROW.encode() * 9)
DAMAGED = {
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:a\nsize 1\n", "a pointer"),
    "empty": (b"", "it is empty"),
    "utf-16": (ROW.encode("utf-16"), r"in UTF-8 \(invalid start byte at byte 0\)"),
    "utf-16 without a mark": (ROW.encode("utf-16-le"), "it has bytes of zero, as UTF-16 does"),
    "latin-1": ("prompt\nünique\n".encode("latin-1"), r"in UTF-8 \(invalid start byte at byte 7\)"),
    "cut gzip": (PACKED[:-12], "damaged gzip"),
    "damaged gzip": (PACKED[:14] + b"x" * 40, "damaged gzip"),
}
READERS: dict[str, Callable[[str], Any]] = {
    "x.jsonl": jsonl,
    "x.csv": csv,
    "x.txt": lines,
    "x.text": text,
    "gsm8k.jsonl": lambda path: deepspec(str(Path(path).parent), ["gsm8k"]),
    "qualitative.jsonl": lambda path: speed_bench(str(Path(path).parent)),
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named(name: str, kind: str, tmp_path: Path) -> None:
    content, reason = DAMAGED[kind]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"data\.path='.*{name}': .*{reason}[^\n]*$"):
        READERS[name](str(tmp_path / name))


@pytest.mark.parametrize("kind", ["pointer", "empty"])
@pytest.mark.parametrize("read", [parquet, lambda path: prompt_text(f"@{path}")])
def test_a_file_that_is_no_text_is_named_too(read: Any, kind: str, tmp_path: Path) -> None:
    content, reason = DAMAGED[kind]
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"/x': {reason}"):
        read(str(tmp_path / "x"))
