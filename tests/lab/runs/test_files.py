"""Damaged runs are refused when they are read, and named beside the others."""

import json
import os
import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.lab.runs.files import FACTS, LINES, run_folders
from outrider.lab.runs.run import Run, gather, load
from outrider.lab.runs.store import unfinished
from outrider.lab.runs.summary import Summary


def nested(folder: Path) -> None:
    (folder / FACTS).write_text("[" * 100_000)


def of_a_wrong_type(folder: Path) -> None:
    facts = json.loads((folder / FACTS).read_text())
    facts["drafters"]["bigram"] = {"gamma": [1]}
    (folder / FACTS).write_text(json.dumps(facts))


def a_pipe(folder: Path) -> None:
    (folder / FACTS).unlink()
    os.mkfifo(folder / FACTS)


def a_link_away(folder: Path) -> None:
    shutil.move(folder / LINES, folder.parent / "elsewhere")
    (folder / LINES).symlink_to("../elsewhere")


def changed(folder: Path, **fields: Any) -> None:
    line = json.loads((folder / LINES).read_text().splitlines()[0]) | fields
    (folder / LINES).write_text(json.dumps(line) + "\n")


def a_stranger(folder: Path) -> None:
    changed(folder, drafter="stranger")


def an_infinite_sum(folder: Path) -> None:
    changed(folder, overlap={"prefixes": [float("inf")]})


DAMAGES = (nested, of_a_wrong_type, a_pipe, a_link_away, a_stranger, an_infinite_sum)


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_run_is_named_and_the_others_are_shown(
    whole_run: Run, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    for name in ("bad", "good"):
        shutil.copytree(whole_run.folder, tmp_path / name)
    damage(tmp_path / "bad")
    assert len(run_folders([tmp_path])) == 2
    with pytest.raises(ConfigError, match="bad"):
        load(tmp_path / "bad")
    runs, (line,) = gather([tmp_path])
    assert [run.folder.name for run in runs] == ["good"]
    assert "bad" in line and "\n" not in line and len(line) < 600
    unfinished(tmp_path)  # a neighbour's `compare` looks for a run to continue


@pytest.mark.usefixtures("drawn_once")
def test_a_run_whose_figures_fail_is_left_out_of_the_report(
    whole_run: Run, tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        shutil.copytree(whole_run.folder, tmp_path / name)

    def odd(summary: Summary) -> Any:
        return own.func(summary) if summary.run.folder.name == "good" else 1 // 0

    own, odd_pairs = vars(Summary)["pairs"], cached_property(odd)
    odd_pairs.__set_name__(Summary, "pairs")
    monkeypatch.setattr(Summary, "pairs", odd_pairs)
    out = run.done("report", tmp_path)
    assert "left out: " in out and "bad: damaged, ZeroDivisionError" in " ".join(out.split())
    assert (tmp_path / "report.html").is_file()
    assert run("report", tmp_path / "bad")[0] == 1


def test_links_inside_of_a_run_are_followed(whole_run: Run, tmp_path: Path) -> None:
    shutil.copytree(whole_run.folder, tmp_path / "run")
    shutil.move(tmp_path / "run" / LINES, tmp_path / "run" / "lines")
    (tmp_path / "run" / LINES).symlink_to("lines")
    (tmp_path / "linked").symlink_to("run")
    assert load(tmp_path / "linked").finished
