"""Compares drafters across runs on the prompts that these share, and the gammas of a sweep."""

import itertools
import json
from collections.abc import Mapping, Sequence

from outrider.lab.runs.labels import flatten, labels
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST
from outrider.lab.statistics.pairs import LEVEL, Comparison, Pair, is_control, tested
from outrider.lab.statistics.permutation_test import prompts_to_reach


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


def best_gammas(summaries: Sequence[Summary]) -> list[Pair]:
    """Returns for each drafter of a sweep over gamma how its best gamma does against the next.

    The two with the largest speedups are chosen on every second prompt, and compared on the others:
    a figure that was chosen for being large is too large on the prompts that it was chosen by. All
    are one Holm family. Names are such as "eagle, gamma 5", with what else differs between the runs
    before the gamma. Runs are compared if they differ in gamma alone and have ten finished prompts
    in common, and drafters if their gamma is that of the run.
    """
    comparisons = []
    sweeps = _sweeps(summaries)
    names = labels([next(iter(by_gamma.values())).run for by_gamma in sweeps])
    for label, by_gamma in zip(names, sweeps, strict=True):
        first, *others = by_gamma.values()
        prompts = first.prompts
        for other in others:
            shared = set(shared_prompts(first, other))
            prompts = [prompt for prompt in prompts if prompt in shared]
        if len(prompts) < 2 * FEWEST:
            continue
        choosing, testing = prompts[::2], prompts[1::2]
        for row in first.rows:
            name = row.drafter
            has_own = first.run.facts["drafters"][name].get("gamma") is not None
            if row.control or has_own or row.rates["speedup"] is None:
                continue
            able = {g: s for g, s in by_gamma.items() if name in s.run.drafters}
            ranking = sorted(
                able, key=lambda g: -float(able[g].statistic(name, "speedup", choosing).value)
            )
            best, *rest = ranking[:2]
            for second in rest:
                comparisons.append(
                    Comparison(
                        "speedup",
                        ", ".join(filter(None, (name, label, f"gamma {best}"))),
                        f"gamma {second}",
                        able[best].statistic(name, "speedup", testing),
                        able[second].statistic(name, "speedup", testing),
                    )
                )
    return tested(comparisons)


def best_gamma_lines(pairs: Sequence[Pair]) -> list[str]:
    """Returns the outcome of `best_gammas` in words, a line for each drafter.

    It is one line if so few prompts could not tell any two gammas apart.
    """
    if pairs and not any(pair.reachable for pair in pairs):
        few, enough = pairs[0].prompts, prompts_to_reach(LEVEL, len(pairs))
        line = f"{2 * few} prompts are too few to tell the best gamma of any of {len(pairs)} lines"
        return [f"{line} from the next: use {2 * enough} or more, half of which choose it"]
    lines = []
    for pair in pairs:
        gap = pair.difference
        name, _, gamma = pair.one.rpartition(", ")
        is_better = pair.significant and gap.value > 0
        verdict = "is better than" if is_better else "is not told apart from"
        if pair.significant and gap.value < 0:
            verdict = "was chosen, but is worse than"
        lines.append(
            f"{name}: {gamma} {verdict} {pair.other}: speedup {gap.value:+.2f}"
            f" on {pair.prompts} prompts that did not choose it (p {pair.p_holm:.2g})"
        )
    return lines


def _sweeps(summaries: Sequence[Summary]) -> list[Mapping[int, Summary]]:
    """Returns the runs that differ in gamma alone, by gamma, where there are several."""
    groups: dict[str, dict[int, Summary]] = {}
    for summary in summaries:
        settings = dict(flatten(summary.run.facts["settings"]))
        gamma = int(settings.pop("gamma"))
        groups.setdefault(json.dumps(settings), {})[gamma] = summary
    return [by_gamma for by_gamma in groups.values() if len(by_gamma) > 1]
