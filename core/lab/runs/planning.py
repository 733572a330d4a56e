"""How many prompts a comparison needs, judged by those it has measured."""

from collections.abc import Mapping

from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST, prompts_needed
from outrider.lab.statistics.pairs import is_control

PLANNED = ("alpha", "alpha_tested", "speedup")
"""The rates to plan for. A precision is a share of the speedup, and a difference in the others."""


def needed(summary: Summary, precision: float) -> Mapping[str, Mapping[str, int | None]]:
    """Returns by rate and drafter how many prompts give an interval of +- `precision`.

    None where the measured prompts are too few to tell, or all agree.
    """
    configs = summary.run.facts["drafters"]
    plans: dict[str, dict[str, int | None]] = {}
    for row in summary.rows:
        for rate in PLANNED:
            if row.rates[rate] is not None and not is_control(row.drafter, configs[row.drafter]):
                statistic = summary.statistic(row.drafter, rate)
                count = prompts_needed(statistic, precision, relative=rate == "speedup")
                plans.setdefault(rate, {})[row.drafter] = count
    return plans


def plan_lines(summary: Summary, precision: float) -> list[str]:
    """Returns `needed` in words, a line for each rate."""
    lines = []
    for rate, by_drafter in needed(summary, precision).items():
        known = {name: count for name, count in by_drafter.items() if count is not None}
        aim = f"{rate} within {precision:.1%}" if rate == "speedup" else f"{rate} ± {precision:g}"
        if known:
            most = max(known, key=lambda name: known[name])
            others = ", ".join(f"{name} {count}" for name, count in known.items())
            lines.append(f"{aim} takes {known[most]} prompts ({others})")
        else:
            lines.append(f"{aim}: too few prompts to tell; measure at least {FEWEST}")
    return lines
