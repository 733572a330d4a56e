"""Best gamma: chosen on one half of the prompts and tested on the other."""

import json
from collections.abc import Mapping, Sequence

from outrider.extras.view.across import shared_prompts
from outrider.extras.view.report import labels
from outrider.lab.runs.facts import flatten
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST
from outrider.lab.statistics.pairs import Comparison, Pair, tested


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
    """Returns the outcome of `best_gammas` in words, a line for each drafter."""
    lines = []
    for pair in pairs:
        gap = pair.difference
        interval = "" if gap.low is None else f" [{gap.low:+.2f}, {gap.high or 0:+.2f}]"
        name, _, gamma = pair.one.rpartition(", ")
        is_better = pair.significant and gap.value > 0
        verdict = "is better than" if is_better else "is not told apart from"
        if pair.significant and gap.value < 0:
            verdict = "was chosen, but is worse than"
        lines.append(
            f"{name}: {gamma} {verdict} {pair.other}: speedup {gap.value:+.2f}{interval}"
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
