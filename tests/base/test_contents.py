"""Whatever is no JSON is one kind of error, from a text and from a file."""

from json import JSONDecodeError
from pathlib import Path

import pytest

from outrider.base.contents import json_in, json_of


@pytest.mark.parametrize(
    ("content", "reason", "of_file"),
    [
        (b"", "Expecting value", "it is empty"),
        (b"\xff\xfe{", "codec can't decode", "expected text in UTF-8"),
        (b"[" * 100_000, "Nested too deeply", "Nested too deeply"),
        (b'{"a":' * 100_000, "Nested too deeply", "Nested too deeply"),
        (b"9" * 5000, "Exceeds the limit", "Exceeds the limit"),
    ],
)
def test_content_that_is_no_json_is_one_kind_of_error(
    tmp_path: Path, content: bytes, reason: str, of_file: str
) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(JSONDecodeError, match=reason):
        json_of(content)
    with pytest.raises(ValueError, match=of_file):
        json_in(tmp_path / "file")
