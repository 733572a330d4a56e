"""The best gamma is tested on prompts that did not choose it."""

from dataclasses import replace
from itertools import count

from outrider.extras.view.best_gamma import best_gamma_lines, best_gammas
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary


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
