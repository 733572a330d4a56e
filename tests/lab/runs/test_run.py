"""A run on disk is read as it was written, and its damage is named."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.lab.runs.files import FACTS, LINES
from outrider.lab.runs.run import Run, gather, load, pooled
from outrider.lab.runs.store import RunFolder
from outrider.lab.runs.summary import Summary

Go = Callable[..., RunFolder]


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


def shard(run: Run, name: str | None, prompts: set[str], **settings: object) -> Run:
    facts = {
        **run.facts,
        "settings": {**run.facts["settings"], "shard": name, **settings},
        "questions": [question for question in run.facts["questions"] if question[0] in prompts],
        "starts": [{"command": name}],
    }
    return replace(
        run, facts=facts, measurements=tuple(m for m in run.measurements if m.prompt in prompts)
    )


def test_shards_give_the_figures_of_the_whole(whole_run: Run) -> None:
    shards = [shard(whole_run, "1/2", {"a", "c"}), shard(whole_run, "2/2", {"b", "d"})]
    (run,) = pooled(shards)
    assert run.finished and len(run.facts["starts"]) == 2
    rates = [row.rates["alpha"] for row in Summary(run).rows]
    whole = [row.rates["alpha"] for row in Summary(whole_run).rows]
    assert [rate and round(rate.value, 9) for rate in rates] == [
        rate and round(rate.value, 9) for rate in whole
    ]


def test_shards_that_are_missing_are_said(whole_run: Run) -> None:
    parts = [shard(whole_run, f"{number}/3", {"abc"[number - 1]}) for number in (1, 3)]
    (run,) = pooled(parts)
    assert run.facts["settings"]["shard"] == "1/3, 3/3"


def test_a_drafter_that_failed_on_one_shard_has_no_row(whole_run: Run) -> None:
    one, other = shard(whole_run, "1/2", {"a", "c"}), shard(whole_run, "2/2", {"b", "d"})
    kept = tuple(m for m in one.measurements if m.drafter != "lookup")
    failed = {"lookup": "prompt a: drafter PromptLookup raised KeyError"}
    (run,) = pooled([replace(one, measurements=kept, failed=failed), other])
    assert run.failed == failed and not run.finished
    assert [row.drafter for row in Summary(run).rows] == ["none", "bigram"]
    assert len(Summary(run).prompts) == 4


def test_other_runs_stay_apart(whole_run: Run) -> None:
    one, other = shard(whole_run, "1/2", {"a"}), shard(whole_run, "2/2", {"b"}, gamma=9)
    assert pooled([one, other]) == [one, other]
    assert pooled([one, one]) == [one, one]  # the same prompts
    whole = [shard(whole_run, None, {"a"}), shard(whole_run, None, {"b"})]
    assert pooled(whole) == whole


def test_runs_are_gathered_from_below(run_in: Callable[..., Any], tmp_path: Path) -> None:
    run_in(tmp_path / "sweep" / "0", protocol="overlap")
    run_in(tmp_path / "sweep" / "1", gamma=2, stop_after=2)
    runs, damaged = gather([tmp_path / "sweep"])
    assert damaged == []
    assert [run.facts["settings"]["gamma"] for run in runs] == [3, 2]
    assert [run.finished for run in runs] == [True, False]
    assert len(gather([tmp_path / "sweep", tmp_path / "sweep" / "0"])[0]) == 2
    with pytest.raises(ConfigError, match="expected a folder that exists"):
        gather([tmp_path / "gone"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="expected a run of `outrider compare` in it"):
        gather([tmp_path / "empty"])
