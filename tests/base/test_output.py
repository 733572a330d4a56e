"""A command whose standard output fails says so in one line, or nothing if nobody reads it."""

import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TEXT = ("target=tabular", "prompt=[0,1]", "max_new_tokens=4", "drafter=random", "hydra.run.dir=d")
COMMANDS: dict[str, tuple[str, ...]] = {
    "a text": ("generate", *TEXT),
    "a text as JSON": ("generate", *TEXT, "--json"),
    "a help that exits": ("new-plugin", "--help"),
    "a table": ("plugins",),
    "a config": ("generate", *TEXT, "--cfg", "job"),
    "a sweep": ("generate", *TEXT, "-m", "hydra.sweep.dir=s"),
}


@pytest.fixture(params=[1, -1], ids=["at each line", "at the end"])
def full(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A file on a full disk, to be standard output."""
    with Path("/dev/full").open("w", buffering=request.param) as stream:
        yield stream


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_one_line(
    run: Any, full: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", full)
    err = run.refused(*COMMANDS[command])
    assert err.count("outrider: No space left on device\n") == 1
    assert "Traceback" not in err and "Errno" not in err


@pytest.mark.parametrize("command", ["a text", "a help that exits"])
def test_a_reader_that_has_gone_is_told_nothing(
    run: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        status, _, err = run(*COMMANDS[command])
    assert (status, err) == (1, "")


@pytest.mark.parametrize("prompt", ["prompt=[0,1]", "prompt=[the cat,a dog]"])
def test_a_text_that_can_not_be_shown_is_saved(
    run: Any, full: Any, folder: Path, prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", full)
    model = ("target=transformers", f"target.model={folder}")
    words = [word for word in TEXT if not word.startswith(("target", "prompt"))]
    assert run("generate", *model, prompt, *words)[0] == 1
    assert json.loads(Path("d/generation.json").read_text())


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_characters_that_an_output_can_not_show_are_escaped(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file, encoding))
    model = ("target=transformers", f"target.model={folder}", "max_new_tokens=4")
    assert run("generate", *model, 'prompt=["the 猫",a dog]', "hydra.run.dir=d")[0] == 0
    text = file.getvalue().decode(encoding)
    assert ("the 猫" if encoding == "utf-16" else "the \\u732b") in text
    assert text.count("tokens per call") == 2


@pytest.mark.parametrize("columns", ["-5", "²", "100000", "20"])
def test_no_width_loses_a_figure(run: Any, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = run.done("generate", *TEXT)
    assert "1.00 tokens per" in out and str(Path.cwd() / "d" / "generation.json") in out
    assert max(map(len, out.splitlines())) < 1000
