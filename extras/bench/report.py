"""What a bench measured: plain values, of which a table and lines of text are made."""

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.table import Table

from outrider.base.terminal import plain
from outrider.extras.bench.entrants import OUTRIDER_PLAIN
from outrider.extras.bench.measure import Run, speed, speed_ratio
from outrider.lab.measuring.text_differences import Difference
from outrider.lab.statistics.intervals import Interval
from outrider.lab.tables.rates import ITSELF

UNTYPICAL = 2
"""The first rounds of a text, left out: in the first one the target reads the prompt, and in the
second many drafters do."""

PHASES = ("draft", "score", "verify", "rest")

Facts = Mapping[str, Any]
"""What `bench.json` holds beside the settings, by the entrant's name."""


def figures_of(
    runs: Sequence[Run], names: Collection[str], pairs: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Returns what runs say of the entrants, and of pairs of them.

    A ratio is how many times as fast the first entrant is as the second: in all, and in decoding
    alone.
    """
    return {
        "tokens_per_second": {name: speed(runs, name) for name in names},
        "decoding_tokens_per_second": {name: speed(runs, name, alone=True) for name in names},
        "ratios": [
            (*pair, *(speed_ratio(runs, *pair, alone=alone) for alone in (False, True)))
            for pair in pairs
        ],
        "phases": {name: _phases(runs, name) for name in names},
        "drafting": draft_costs(runs),
    }


def draft_costs(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Returns what each entrant's average draft costs: "seconds", and their "share" of its round.

    The seconds of a text's drafts are the median over its repeats. Texts whose rounds are all
    UNTYPICAL do not count.
    """
    costs = {}
    for name in dict.fromkeys(run.entrant for run in runs if run.entrant != OUTRIDER_PLAIN):
        texts: dict[int, list[Run]] = {}
        for run in runs:
            if run.entrant == name and run.drafts[UNTYPICAL:]:
                texts.setdefault(run.prompt, []).append(run)
        seconds, whole = (
            sum(
                statistics.median(sum(getattr(it, part)[UNTYPICAL:]) for it in own)
                for own in texts.values()
            )
            for part in ("drafts", "rounds")
        )
        count = sum(len(repeats[0].drafts[UNTYPICAL:]) for repeats in texts.values())
        if count:
            costs[name] = {"seconds": seconds / count, "share": seconds / whole}
    return costs


def logged(facts: Facts) -> dict[str, float]:
    """Returns the speeds of entrants, and their ratios with the ends of intervals, by name."""
    speeds = facts["tokens_per_second"].items()
    figures = {f"{name}/tokens_per_second": value or 0.0 for name, value in speeds}
    for name, rival, ratio, _ in facts["ratios"]:
        figures |= {} if ratio is None else ratio.named(f"{name}/times {rival}")
    return figures


def bench_table(facts: Facts, runs: Sequence[Run], title: str) -> Table:
    table = Table(title=title, padding=0)  # so that it fits a narrow terminal
    table.add_column("")
    for heading in ("tokens/s", "decoding", "tokens\nper call", *PHASES, "start\ns", "peak\nMB"):
        table.add_column(heading, justify="right")
    for name, start_seconds in facts["start_seconds"].items():
        phases = facts["phases"][name]
        counted = [run for run in runs if run.entrant == name and run.calls]
        calls = sum(run.calls or 0 for run in counted)
        speeds = (facts[f"{part}tokens_per_second"][name] for part in ("", "decoding_"))
        table.add_row(
            plain(name),
            *("-" if each is None else f"{each:.1f}" for each in speeds),
            f"{sum(len(run.tokens) for run in counted) / calls:.2f}" if calls else "-",
            *(f"{phases[phase] / phases['total']:.1%}" if phases else "-" for phase in PHASES),
            f"{start_seconds:.1f}",
            f"{facts['peak_bytes'][name] / 1e6:.0f}",
        )
    return table


def bench_lines(
    facts: Facts, runs: Sequence[Run], differing: Sequence[tuple[str, Difference]] | None
) -> list[str]:
    """Returns the text below the table: ratios, differing texts, the curves.

    differing: greedy texts, each with its entrant; None if texts were drawn.
    """
    lines = [
        f"{name} is {_with_interval(ratio)} times as fast as {rival}"
        + (f", {_with_interval(alone)} in decoding alone" if alone else "")
        for name, rival, ratio, alone in facts["ratios"]
    ]
    lines += [
        f"{name}: a draft takes {1e6 * cost['seconds']:.0f} us, {cost['share']:.1%} of its round"
        for name, cost in facts["drafting"].items()
    ]
    lines += dict.fromkeys(f"{it.entrant} chose {it.chosen}" for it in runs if it.chosen)
    if facts["target_itself"]:
        lines.append(f"{', '.join(facts['target_itself'])}: {ITSELF}")
    if differing is not None:
        lines.append(_agreement(differing, runs))
    for name, (xs, ys) in facts["curves"].items():
        lines.append(f"{name}: " + ", ".join(f"{x}: {y:.1f}" for x, y in zip(xs, ys, strict=True)))
    return lines


def _phases(runs: Sequence[Run], name: str) -> dict[str, float]:
    """Returns an entrant's seconds in each phase, in the rest of the loop, and in total."""
    own_runs = [run for run in runs if run.entrant == name and run.phases]
    if not own_runs:
        return {}
    phases = {phase: sum(run.phases[phase] for run in own_runs) for phase in own_runs[0].phases}
    total = sum(run.seconds for run in own_runs)
    return phases | {"rest": total - sum(phases.values()), "total": total}


def _agreement(differences: Sequence[tuple[str, Difference]], runs: Sequence[Run]) -> str:
    texts = len({(run.prompt, run.entrant) for run in runs})
    if not differences:
        return f"all {texts} texts agree"
    ties = sum(difference.is_tie for _, difference in differences)
    lines = [f"of {texts} texts {len(differences)} differ, {ties} of them at ties of float32"]
    for entrant, it in differences:
        reason = "one text ends" if it.gap is None else f"logits {it.gap:.2g} apart"
        if not it.is_tie:
            lines.append(f"  {entrant}, prompt {it.prompt}, token {it.place}: {reason}")
    return "\n".join(lines)


def _with_interval(ratio: Interval | None) -> str:
    if ratio is None:
        return "nan"
    ends = "" if ratio.low is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}{ends}"
