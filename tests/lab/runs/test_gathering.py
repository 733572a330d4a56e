"""Runs are gathered from folders; shards are pooled, and nothing else is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider import ConfigError
from outrider.lab.runs.gathering import gather, pooled
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary


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
