"""Rates: the table of a page, speed first and the largest speedup on top."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from outrider.lab.runs.row import Row
from outrider.lab.runs.table import columns_of, digits_of

FIRST = ("speedup", "tokens_per_second", "block_efficiency", "alpha_tested", "alpha")
"""The columns that come first, in this order."""

MEANINGS = {
    "speedup": "how many times as fast as plain decoding",
    "tokens_per_second": "the tokens of the text per second",
    "block_efficiency": "tokens per call of the target, at most gamma + 1; cut rounds are censored",
    "mean_acceptance_length": "tokens per call as counted, with the last round of a text cut where"
    " the text ends; others call this mean acceptance length",
    "expected_alpha_tested": "alpha tested as the distributions lead one to expect",
    "expected_block_efficiency": "tokens per call as the distributions lead one to expect",
    "speedup_median": "the median over prompts of the speedup",
    "alpha_tested": "the share of the tested draft tokens that were accepted",
    "alpha": "the overlap of the draft and target distributions",
    "alpha_rule": "the same under the run's acceptance rule, which may accept more or less",
    "overshoot": "how much the rule accepts beyond what the target would write",
    "alpha_ceiling": "the best acceptance that any lossless rule could reach",
    "coverage": "the share of positions at which the drafter had a draft",
    "acceptance_rate": "accepted draft tokens over all draft tokens",
    "rouge2": "how many pairs of words the texts share with the references",
}
"""By column, its meaning in a few words; see docs/measures.md."""


@final
@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table. digits: the number of decimals. meaning: may be empty."""

    name: str
    heading: str
    digits: int
    meaning: str


@final
@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: a drafter of a run. label: the run's, empty if there is only one."""

    label: str
    row: Row
    first: bool


def columns(rows: Sequence[Row]) -> list[Column]:
    """Returns the columns that rows have data for, those of speed first."""
    names = columns_of(rows)
    order = [name for name in FIRST if name in names]
    order += [name for name in names if name not in FIRST]
    return [
        Column(name, name.replace("_", " "), digits_of(name), MEANINGS.get(name, ""))
        for name in order
    ]


def lines(rows: Mapping[str, Sequence[Row]]) -> list[Line]:
    """Returns a line for each row of each run, by falling speedup where there is one."""
    pairs = [(label, row) for label, run in rows.items() for row in run]
    ordered = sorted(pairs, key=lambda pair: -_speedup(pair[1]))
    best = max((_speedup(row) for _, row in ordered if _drafts(row)), default=-math.inf)
    return [
        Line(label, row, _drafts(row) and _speedup(row) == best > -math.inf)
        for label, row in ordered
    ]


def _drafts(row: Row) -> bool:
    return row.counts is not None and row.counts.drafted > 0


def _speedup(row: Row) -> float:
    rate = row.rates.get("speedup")
    return -math.inf if rate is None else rate.value
