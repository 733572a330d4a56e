"""What to make of the best settings: which to use, how sure that is, and why."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from outrider.extras.advise.forecast import Setting
from outrider.lab.runs.row import PLAIN
from outrider.lab.statistics.intervals import Interval, Statistic, interval, prompts_needed, ratio
from outrider.lab.statistics.pairs import LEVEL, Comparison, tested
from outrider.lab.tables.table import Cell, Column, Figure, Table, names_of

COLUMNS = ("gamma", "tokens\na round", "time of\na round", "expected\nspeedup", "measured")


Measured = Mapping[str, Interval | None]
"""By drafter, its speedup on other prompts."""


def rows_of(best: Sequence[Setting], measured: Measured) -> list[dict[str, Any]]:
    """Returns what is expected of each drafter and what was measured, for JSON."""
    return [
        {name: getattr(it, name) for name in ("drafter", "gamma", "tokens", "cost")}
        | {"expected": interval(it.speedup, "log"), "measured": measured.get(it.drafter)}
        for it in best
    ]


def table_of(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for it in rows:
        figures = [it[key] and Figure(it[key], 2) for key in ("expected", "measured")]
        cells = it["drafter"], str(it["gamma"]), f"{it['tokens']:.2f}", f"{it['cost']:.2f}"
        lines.append((*cells, *figures))
    columns = [Column(heading, beside=True) for heading in COLUMNS]
    return Table(title, (*names_of("drafter"), *columns), tuple(lines))


def advice(best: Sequence[Setting]) -> list[str]:
    """Returns what to do, why, how sure that is, and what would tell the first two apart."""
    first = best[0]
    name, speed = f"{first.drafter} with gamma {first.gamma}", float(first.speedup.value)
    cost = f"a round takes {first.cost:.2f} times as long as plain decoding's"
    why = f"{speed:.2f}x is expected, since {cost} and writes {first.tokens:.2f} tokens"
    plain = [ratio(*[it.speedup.columns[:, 1]] * 2) for it in best]
    tests = [
        Comparison("speedup", it.drafter, PLAIN, it.speedup, own)
        for it, own in zip(best, plain, strict=True)
    ]
    over_plain = tested(tests)[0]
    if speed <= 1:
        return [f"Don't draft here. With the best, {name}, {why}."]
    chance = "" if over_plain.significant else " That could be chance:"
    said = [f"Draft by {name}: {why}.{chance} p = {over_plain.p_holm:.2g}."]
    for other in best[1:2]:
        pair = Comparison("speedup", first.drafter, other.drafter, first.speedup, other.speedup)
        (lead,), gap = tested([pair]), speed - float(other.speedup.value)
        needed = prompts_needed(_gap(first.speedup, other.speedup), max(gap, 1e-9))
        how = f"{needed or 'too many'} prompts would tell the two apart"
        how = "which is behind" if lead.p < LEVEL else how
        name = f"{other.drafter} with gamma {other.gamma}, {float(other.speedup.value):.2f}x"
        said.append(f"Runner-up: {name}; {how} (p = {lead.p:.2g}).")
    return said


def _gap(one: Statistic, other: Statistic) -> Statistic:
    """Returns how far apart two ratios are, prompt by prompt."""
    columns = np.concatenate([one.columns, other.columns], axis=-1)
    return Statistic(
        columns, one.weights, lambda sums: one.figure(sums[..., :2]) - other.figure(sums[..., 2:])
    )
