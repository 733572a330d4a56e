"""Compares drafters across runs on the prompts that these share."""

import itertools
from collections.abc import Mapping

from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.pairs import Comparison, Pair, is_control, tested


def pairs_across(summaries: Mapping[str, Summary]) -> list[Pair]:
    """Returns the differences between runs in the rates that both have, a Holm family for each.

    A drafter is compared with the one of the same name in the other run. If no name is in both, and
    each run has one drafter besides `none` and `random`, these two are compared. Only prompts that
    both runs have finished, with the same text, count.

    summaries: by the run's label.
    """
    comparisons = []
    for (one, first), (other, second) in itertools.combinations(summaries.items(), 2):
        prompts = shared_prompts(first, second)
        rates = [rate for rate in first.compared_rates if rate in second.compared_rates]
        pairs = matched(first.run, second.run) if prompts else []
        for rate, (name, its) in itertools.product(rates, pairs):
            figures = first.statistic(name, rate, prompts), second.statistic(its, rate, prompts)
            comparisons.append(Comparison(rate, f"{name}, {one}", f"{its}, {other}", *figures))
    return tested(comparisons)


def shared_prompts(one: Summary, other: Summary) -> list[str]:
    """Returns the prompts that both runs have finished, with the same text in every turn."""
    questions, others = _questions(one.run), _questions(other.run)
    finished = set(other.prompts)
    return [it for it in one.prompts if it in finished and questions[it] == others[it]]


def matched(one: Run, other: Run) -> list[tuple[str, str]]:
    """Returns the drafters to compare, the name in one run beside that in the other."""
    names, others = (
        [name for name in run.drafters if not is_control(name, run.facts["drafters"][name])]
        for run in (one, other)
    )
    shared = [(name, name) for name in names if name in others]
    if not shared and len(names) == len(others) == 1:
        return [(names[0], others[0])]
    return shared


def _questions(run: Run) -> dict[str, list[tuple[int, str]]]:
    questions: dict[str, list[tuple[int, str]]] = {}
    for prompt, turn, text in run.facts["questions"]:
        questions.setdefault(prompt, []).append((turn, text))
    return questions
