"""A prompt may be typed, or come from a file or standard input, and stays as it is."""

import io
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from outrider.base.errors import ConfigError
from outrider.data.prompts import input_kept, prompt_text

TRICKY = '[INST] ${oc.env:HOME}, "quoted" \\ and = {a: b}\nsecond line'


def test_a_typed_text_is_the_prompt() -> None:
    for prompt in ("Name three rivers.", TRICKY, "", "a@b", "--", [0, 1], ["@one", "two"]):
        assert prompt_text(prompt) == prompt
    assert prompt_text("@@you said") == "@you said"


@pytest.mark.parametrize("content", [TRICKY, "[0,1]", "@again", "-", "é" * 100_000])
def test_a_file_and_standard_input_are_not_interpreted(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prompt.txt"
    for end in ("", "\n", "\r\n"):
        file.write_bytes((content + end).encode())
        assert prompt_text(f"@{file}") == content
        stdin = io.TextIOWrapper(io.BytesIO(file.read_bytes()))
        monkeypatch.setattr("sys.stdin", stdin)
        assert prompt_text("-") == content
    file.write_bytes(b"\xef\xbb\xbf" + content.encode())  # as some editors begin a file
    assert prompt_text(f"@{file}") == content


def test_standard_input_is_the_prompts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that asks, here or in a child, gets no answer from it."""
    (tmp_path / "input").write_text("y\nthe cat\n")
    own = os.dup(0)
    with (tmp_path / "input").open("rb") as given:
        os.dup2(given.fileno(), 0)
    try:
        monkeypatch.setattr("sys.stdin", os.fdopen(0, closefd=False))
        with input_kept():
            with pytest.raises(EOFError):
                input("may I? ")
            assert not subprocess.run(["cat"], check=True, capture_output=True).stdout
            assert prompt_text("-") == "y\nthe cat"
    finally:
        os.dup2(own, 0)
        os.close(own)


def test_a_prompt_that_can_not_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file or directory: expected a file"):
        prompt_text("@missing.txt")
    with pytest.raises(ConfigError, match=r"Is a directory: expected a file"):
        prompt_text(f"@{tmp_path}")
    (tmp_path / "latin").write_bytes("é".encode("latin-1") + b" bien")
    with pytest.raises(ConfigError, match=r"expected text in UTF-8 \(.*at byte 0\)"):
        prompt_text(f"@{tmp_path / 'latin'}")


def test_generate_reads_its_prompt_from_a_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("anything")
    arguments = ("generate", "target=tabular", "prompt=@prompt.txt")
    assert "prompt='anything': expected ids, the target has no tokenizer" in run.refused(*arguments)
