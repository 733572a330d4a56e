"""What a bench measured, as a table, as lines of text, and as JSON."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from rich.table import Table

from outrider.base.terminal import plain
from outrider.extras.bench.entrants import OUTRIDER_PLAIN
from outrider.extras.bench.measure import Curve, Run, speed
from outrider.lab.measuring.text_differences import Difference
from outrider.lab.statistics.intervals import Interval
from outrider.lab.tables.rates import ITSELF

UNTYPICAL = 2
"""The first rounds of a text, left out: in the first one the target reads the prompt, and in the
second many drafters do."""

Ratios = Mapping[tuple[str, str], tuple[Interval | None, Interval | None]]
"""How many times as fast the first entrant is as the second: in all, and in decoding alone."""


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


PHASES = ("draft", "score", "verify", "rest")


@final
@dataclass(frozen=True)
class BenchResult:
    """Everything that a bench measured; mappings are by the entrant's name.

    start_seconds, peak_bytes: of each worker.
    differences: of greedy texts; None if texts were drawn.
    target_itself: the entrants whose drafter is the target in weights that lose nothing.
    """

    runs: Sequence[Run]
    start_seconds: Mapping[str, float]
    peak_bytes: Mapping[str, int]
    ratios: Ratios
    differences: Sequence[tuple[str, Difference]] | None
    curves: Mapping[str, Curve]
    target_itself: Sequence[str]

    def plain(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the result as plain values, for `bench.json`."""
        return {
            "settings": settings,
            "tokens_per_second": {name: speed(self.runs, name) for name in self.start_seconds},
            "decoding_tokens_per_second": {
                name: speed(self.runs, name, alone=True) for name in self.start_seconds
            },
            "ratios": [
                [*pair, *(ratio and asdict(ratio) for ratio in ratios)]
                for pair, ratios in self.ratios.items()
            ],
            "phases": {name: _phases(self.runs, name) for name in self.start_seconds},
            "drafting": draft_costs(self.runs),
            "target_itself": self.target_itself,
            "start_seconds": self.start_seconds,
            "peak_bytes": self.peak_bytes,
            "differences": [
                {"entrant": name, **asdict(difference)}
                for name, difference in self.differences or []
            ],
            "curves": self.curves,
        }


def final_figures(runs: Sequence[Run], names: Sequence[str], ratios: Ratios) -> dict[str, float]:
    """Returns the speeds of entrants, and their ratios with the ends of intervals, by name."""
    figures = {f"{name}/tokens_per_second": speed(runs, name) or 0.0 for name in names}
    for (name, rival), (ratio, _) in ratios.items():
        if ratio is not None:
            figures |= ratio.named(f"{name}/times {rival}")
    return figures


def bench_table(result: BenchResult, title: str) -> Table:
    table = Table(title=title, padding=0)  # so that it fits a narrow terminal
    table.add_column("")
    for heading in ("tokens/s", "decoding", "tokens\nper call", *PHASES, "start\ns", "peak\nMB"):
        table.add_column(heading, justify="right")
    for name, start_seconds in result.start_seconds.items():
        phases = _phases(result.runs, name)
        speeds = (speed(result.runs, name, alone=alone) for alone in (False, True))
        per_call = _tokens_per_call(result.runs, name)
        table.add_row(
            plain(name),
            *("-" if each is None else f"{each:.1f}" for each in speeds),
            f"{per_call:.2f}" if per_call else "-",
            *(f"{phases[phase] / phases['total']:.1%}" if phases else "-" for phase in PHASES),
            f"{start_seconds:.1f}",
            f"{result.peak_bytes[name] / 1e6:.0f}",
        )
    return table


def bench_lines(result: BenchResult) -> list[str]:
    """Returns the text below the table: ratios, differing texts, the curves."""
    lines = [
        f"{name} is {_with_interval(ratio)} times as fast as {rival}"
        + (f", {_with_interval(alone)} in decoding alone" if alone else "")
        for (name, rival), (ratio, alone) in result.ratios.items()
    ]
    lines += [
        f"{name}: a draft takes {1e6 * cost['seconds']:.0f} us, {cost['share']:.1%} of its round"
        for name, cost in draft_costs(result.runs).items()
    ]
    lines += dict.fromkeys(f"{it.entrant} chose {it.chosen}" for it in result.runs if it.chosen)
    if result.target_itself:
        lines.append(f"{', '.join(result.target_itself)}: {ITSELF}")
    if result.differences is not None:
        lines.append(_agreement(result.differences, result.runs))
    for name, (xs, ys) in result.curves.items():
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


def _tokens_per_call(runs: Sequence[Run], name: str) -> float | None:
    """Returns an entrant's tokens per call, or None if it does not report its calls."""
    own_runs = [run for run in runs if run.entrant == name and run.calls]
    if not own_runs:
        return None
    return sum(len(run.tokens) for run in own_runs) / sum(run.calls or 0 for run in own_runs)


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
