"""Runs are compared on the prompts that they share, by the drafters that they share."""

from dataclasses import replace
from typing import Any

import pytest
from tiny.comparisons import runner, three_drafters

from outrider.lab.runs.across import pairs_across, shared_prompts
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.details import settings_tables


@pytest.fixture(scope="module")
def runs(target: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder, run_in = tmp_path_factory.mktemp("across"), runner(target, three_drafters())
    return {f"gamma {gamma}": run_in(folder / str(gamma), gamma=gamma).run for gamma in (2, 3)}


def test_a_drafter_is_compared_with_itself_in_the_other_run(runs: dict[str, Run]) -> None:
    summaries = {label: Summary(run) for label, run in runs.items()}
    pairs = pairs_across(summaries)
    assert {(pair.one, pair.other) for pair in pairs} == {
        ("lookup, gamma 2", "lookup, gamma 3"),
        ("bigram, gamma 2", "bigram, gamma 3"),
    }
    assert {pair.rate for pair in pairs} == {"alpha", "block_efficiency", "speedup"}
    assert {pair.family for pair in pairs} == {2}
    values = {(pair.one, pair.rate): pair.difference.value for pair in pairs}
    assert values["bigram, gamma 2", "alpha"] == 0  # alpha does not depend on gamma
    tokens = [summary.rows[2].rates["block_efficiency"] for summary in summaries.values()]
    expected = tokens[0].value - tokens[1].value
    assert values["bigram, gamma 2", "block_efficiency"] == pytest.approx(expected)


def test_only_the_same_finished_prompts_count(runs: dict[str, Run]) -> None:
    one, other = runs.values()
    unfinished = tuple(m for m in other.measurements if m.prompt != "a")
    asked = [
        [prompt, turn, "something else" if prompt == "b" else text]
        for prompt, turn, text in other.facts["questions"]
    ]
    changed = Run(other.folder, {**other.facts, "questions": asked}, unfinished)
    assert shared_prompts(Summary(one), Summary(changed)) == ["c", "d"]
    pairs = pairs_across({"one": Summary(one), "other": Summary(changed)})
    assert {pair.prompts for pair in pairs} == {2}


def test_one_drafter_in_each_run_is_a_pair_by_any_name(runs: dict[str, Run]) -> None:
    def only(run: Run, drafter: str) -> Run:
        kept = tuple(m for m in run.measurements if m.drafter in ("none", drafter))
        return Run(run.folder, {**run.facts, "drafters": {"none": {}, drafter: {}}}, kept)

    one, other = runs.values()
    summaries = {"one": Summary(only(one, "lookup")), "other": Summary(only(other, "bigram"))}
    pairs = pairs_across(summaries)
    assert {(pair.one, pair.other) for pair in pairs} == {("lookup, one", "bigram, other")}
    assert pairs_across({"one": summaries["one"]}) == []


def test_the_settings_that_differ_stand_side_by_side(runs: dict[str, Run]) -> None:
    (table,) = settings_tables(runs)
    assert [column.title for column in table.columns] == ["setting", "gamma 2", "gamma 3"]
    assert table.rows == (("gamma", "2", "3"),)
    other = runs["gamma 2"]
    edited = replace(other, facts={**other.facts, "identity": {"target": {"weights": "abc"}}})
    (table,) = settings_tables({"one": other, "edited": edited})
    assert table.rows == (("identity.target.weights", "None", "abc"),)
    assert settings_tables({"one": other}) == []
