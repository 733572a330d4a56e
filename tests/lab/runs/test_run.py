"""A run on disk is read as it was written, and its damage is named."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from outrider import ConfigError
from outrider.lab.runs.files import FACTS, LINES
from outrider.lab.runs.run import load
from outrider.lab.runs.store import RunFolder

Go = Callable[..., RunFolder]


def test_read_measurements_equal_written_ones(run_in: Go, tmp_path: Path) -> None:
    run = run_in(tmp_path, temperature=1.0).run
    again = load(tmp_path)
    assert again.measurements == run.measurements
    assert again.finished
    assert again.drafters == ["none", "lookup", "bigram"]


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\r", "\x0c", "\ud800"])
def test_ends_of_lines_inside_a_text_end_no_measurement(
    run_in: Go, tmp_path: Path, end: str
) -> None:
    run = run_in(tmp_path, stop_after=17)
    decoded = run.measurements[-1].decoding
    strange = replace(decoded.steps[0], pieces=(f"a{end}b",) * len(decoded.steps[0].tokens))
    odd = replace(run.measurements[-1], decoding=replace(decoded, steps=(strange,)))
    with RunFolder(tmp_path, run.facts, resume=True) as folder:
        folder.add(odd)
    assert load(tmp_path).measurements == (*run.measurements[:-1], odd)


def test_unescaped_lines_of_an_older_version_are_read(run_in: Go, tmp_path: Path) -> None:
    run = run_in(tmp_path, stop_after=17)
    lines = [json.dumps(item.plain(), ensure_ascii=False) for item in run.measurements]
    lines[-1] = lines[-1].replace('"category": "', '"category": "\u2028')
    (tmp_path / LINES).write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert [m.category for m in load(tmp_path).measurements[-2:]] == ["chat", "\u2028chat"]


def test_fields_of_a_later_version_are_ignored(run_in: Go, tmp_path: Path) -> None:
    run = run_in(tmp_path, stop_after=18)
    items = [item.plain() | {"mood": "good"} for item in run.measurements]
    for item in items:
        for part in (item["overlap"], item["decoding"], *(item["decoding"] or {}).get("steps", ())):
            if part is not None:
                part["colour"] = [1]
    (tmp_path / LINES).write_text("".join(json.dumps(item) + "\n" for item in items))
    assert load(tmp_path).measurements == tuple(run.measurements)


def test_damage_is_named_by_file_and_line(run_in: Go, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected the folder of a run, with run\.json in it"):
        load(tmp_path)
    run_in(tmp_path, stop_after=3)
    lines = (tmp_path / LINES).read_text().splitlines(keepends=True)
    for wrong in ("{oops}\n", '{"prompt": 3}\n'):
        (tmp_path / LINES).write_text(lines[0] + wrong + lines[2])
        with pytest.raises(ConfigError, match=r"measurements\.jsonl, line 2: damaged"):
            load(tmp_path)
    (tmp_path / FACTS).write_text("[]")
    with pytest.raises(ConfigError, match=r"run\.json: damaged"):
        load(tmp_path)
