"""Damaged runs are refused when they are read, and what is read can be summed up and shown."""

import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.extras.view.page.contents import runs_page
from outrider.extras.view.page.listing import listed, run_folders
from outrider.extras.view.page.texts import questions
from outrider.lab.runs.files import FACTS, LINES
from outrider.lab.runs.frames import comparison, tables, write_json
from outrider.lab.runs.run import Run, gather, load, pooled
from outrider.lab.runs.store import unfinished
from outrider.lab.runs.summary import Summary

ODD = (
    *("text", "", -1, 10**6, 10**30, 1e300, 2.5, None, True, [], {}, [[]], {"a": []}, "\ud800"),
    *([1, "x"], [1], "x" * 100_000, "5"),
)
"""Values to put in the place of others."""


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the ways to all values in nested lists and mappings."""
    if way:
        yield way
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items if isinstance(value, dict | list) else ():
        yield from places(item, (*way, key)) if isinstance(item, dict | list) else [(*way, key)]


def damaged(value: Any, chance: random.Random) -> Any:
    """Returns a copy with one value replaced, deleted or doubled."""
    result = copy.deepcopy(value)
    *way, last = chance.choice(list(places(value)))
    holder = result
    for key in way:
        holder = holder[key]
    if chance.random() < 0.3:
        del holder[last]
    else:
        holder[last] = chance.choice(ODD)
    return result


def shown(folder: Path) -> None:
    """Reads, sums up and lists a run, as the report and the server do."""
    listed("id", folder)
    run = load(folder)
    summary = Summary(run)
    assert len(summary.rows) in (0, len(run.drafters))
    questions(summary)
    runs_page({"": summary}, {})
    tables(run)
    comparison(summary)
    pooled([run, run])


def copied(run: Run, folder: Path) -> None:
    """Copies a run twice, to "bad" and "good"."""
    for name in ("bad", "good"):
        shutil.copytree(run.folder, folder / name)


@pytest.mark.parametrize("name", [FACTS, LINES])
def test_a_damaged_run_is_refused_or_can_be_shown(
    whole_run: Run, tmp_path: Path, name: str
) -> None:
    folder, chance = tmp_path / "run", random.Random(1)
    shutil.copytree(whole_run.folder, folder)
    sound = (folder / name).read_text()
    refused = 0
    for _ in range(40):
        lines = sound.splitlines() if name == LINES else [sound]
        index = chance.randrange(len(lines))
        lines[index] = json.dumps(damaged(json.loads(lines[index]), chance))
        (folder / name).write_text("\n".join([*lines, ""]))
        try:
            shown(folder)
        except ConfigError as error:
            assert str(folder) in str(error) and "\n" not in str(error)
            refused += 1
    assert refused >= 20


@pytest.mark.parametrize(
    ("name", "way", "value"),
    [
        (FACTS, "drafters.bigram.gamma", [1]),
        (FACTS, "settings.sampling.temperature", 1e999),
        (LINES, "decoding.steps.0", {"drafted": 10**7, "proposed": [], "parents": []}),
        (LINES, "decoding.repeats", [0.0]),
        (LINES, "overlap.reached.0", -1),
    ],
)
def test_a_value_that_the_file_does_not_bear_out_leaves_its_run_out(
    whole_run: Run, tmp_path: Path, name: str, way: str, value: Any
) -> None:
    copied(whole_run, tmp_path)
    path, keys = tmp_path / "bad" / name, way.split(".")
    lines = [json.loads(line) for line in path.read_text().splitlines()] if name == LINES else []
    content = lines or [json.loads(path.read_text())]
    for line in content:
        protocol = keys[0] if keys[0] in ("decoding", "overlap") else None
        holder = line if protocol is None or line[protocol] else None
        if holder is None:
            continue
        for key in keys[:-1]:
            holder = holder[int(key) if isinstance(holder, list) else key]
        last = int(keys[-1]) if isinstance(holder, list) else keys[-1]
        if isinstance(value, dict) and "steps" in keys:
            holder[last] |= value
        elif line.get("drafter") != "none":
            holder[last] = value
    path.write_text("\n".join(map(json.dumps, content)) + "\n")
    runs, (line,) = gather([tmp_path])
    assert [run.folder.name for run in runs] == ["good"]
    assert str(path.parent) in line and "damaged, expected" in line and len(line) < 600
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


def nested(folder: Path) -> None:
    (folder / FACTS).write_text("[" * 100_000)


def a_pipe(folder: Path) -> None:
    (folder / FACTS).unlink()
    os.mkfifo(folder / FACTS)


def a_link_away(folder: Path) -> None:
    shutil.move(folder / LINES, folder.parent / "elsewhere")
    (folder / LINES).symlink_to("../elsewhere")


def a_stranger(folder: Path) -> None:
    line = json.loads((folder / LINES).read_text().splitlines()[0]) | {"drafter": "stranger"}
    (folder / LINES).write_text(json.dumps(line) + "\n")


DAMAGES = (nested, a_pipe, a_link_away, a_stranger)


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_run_is_named_and_the_others_are_shown(
    whole_run: Run, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    copied(whole_run, tmp_path)
    damage(tmp_path / "bad")
    assert len(run_folders([tmp_path])) == 2
    listed("id", tmp_path / "good")
    with pytest.raises(ConfigError, match="bad"):
        shown(tmp_path / "bad")
    runs, lines = gather([tmp_path])
    assert [run.folder.name for run in runs] == ["good"]
    assert len(lines) == 1 and "bad" in lines[0]


def test_links_inside_of_a_run_are_followed(whole_run: Run, tmp_path: Path) -> None:
    shutil.copytree(whole_run.folder, tmp_path / "run")
    shutil.move(tmp_path / "run" / LINES, tmp_path / "run" / "lines")
    (tmp_path / "run" / LINES).symlink_to("lines")
    (tmp_path / "linked").symlink_to("run")
    write_json(Summary(whole_run), tmp_path / "run")
    assert load(tmp_path / "linked").finished
    assert listed("id", tmp_path / "run").state == "finished"
