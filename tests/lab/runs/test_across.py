"""Runs are compared on the prompts that they share, by the drafters that they share."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from tiny.comparisons import runner, three_drafters

from outrider.lab.runs.across import best_gamma_lines, best_gammas, pairs_across, shared_prompts
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


def sped(run: Run, gamma: int, seconds: float, prompts: int) -> Summary:
    """A run of many prompts whose texts of `bigram` take so many seconds, and a little noise."""
    numbers = count()
    measurements = []
    for number in range(prompts):
        for m in run.measurements:
            if m.prompt == "b" and m.decoding is not None:
                noise = 1 + next(numbers) % 7 / 1000
                own = seconds if m.drafter == "bigram" else 1.0
                text = replace(m.decoding, seconds=own * noise, plain_seconds=0.1)
                measurements.append(replace(m, prompt=f"p{number}", decoding=text))
    facts = {
        **run.facts,
        "settings": {**run.facts["settings"], "gamma": gamma},
        "protocols": ["decode"],
        "questions": [[f"p{number}", 1, "asked"] for number in range(prompts)],
    }
    return Summary(replace(run, facts=facts, measurements=tuple(measurements)))


def test_a_gamma_is_chosen_on_one_half_and_tested_on_the_other(whole_run: Run) -> None:
    runs = [sped(whole_run, gamma, seconds, 16) for gamma, seconds in ((1, 3), (2, 1), (3, 2))]
    pairs = {pair.one: pair for pair in best_gammas(runs)}
    best = pairs["bigram, gamma 2"]
    assert best.other == "gamma 3" and best.prompts == 8 and best.significant
    (line,) = best_gamma_lines([best])
    assert line.startswith("bigram: gamma 2 is better than gamma 3: speedup +")
    assert "on 8 prompts that did not choose it" in line
    (equal,) = [pair for name, pair in pairs.items() if name.startswith("lookup")]
    assert not equal.significant
    assert "is not told apart from" in best_gamma_lines([equal])[0]


def test_few_prompts_and_other_differences_choose_nothing(whole_run: Run) -> None:
    assert best_gammas([sped(whole_run, 1, 1, 8), sped(whole_run, 2, 1, 8)]) == []
    assert best_gammas([sped(whole_run, 1, 1, 16)]) == []


def test_a_drafter_with_a_gamma_of_its_own_has_no_best_one(whole_run: Run) -> None:
    drafters = {**whole_run.facts["drafters"], "bigram": {"gamma": 8}}
    run = replace(whole_run, facts={**whole_run.facts, "drafters": drafters})
    pairs = best_gammas([sped(run, gamma, gamma, 16) for gamma in (1, 2)])
    assert [pair.one.partition(",")[0] for pair in pairs] == ["lookup"]


def test_runs_of_sweeps_have_names_that_differ(whole_run: Run) -> None:
    def sweep(turns: int) -> list[Summary]:
        settings = {**whole_run.facts["settings"], "turns": turns}
        run = replace(whole_run, facts={**whole_run.facts, "settings": settings})
        return [sped(run, gamma, gamma, 16) for gamma in (1, 2)]

    names = {pair.one for pair in best_gammas([*sweep(1), *sweep(2)])}
    assert {"bigram, turns 1, gamma 1", "bigram, turns 2, gamma 1"} <= names
    assert best_gammas([]) == []
