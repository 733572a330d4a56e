"""Row: the figures of one drafter of a run, with their intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, final

from outrider.contract.round import Counts
from outrider.lab.statistics.acceptance import Acceptance
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.prediction import Prediction

TASK_RATES = ("block_efficiency", "speedup", "tokens_per_second")
"""The rates that are given by task, besides scores."""


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One drafter, over all prompts that every drafter has finished.

    rates: by name (those of `rates_with`, and `speedup_median`, the median over prompts); None if
        the run has no data for the rate.
    depths: figures by depth from 1 to gamma, None where no draft got that far. `alpha_at` is the
        acceptance at a depth, given that a draft gets there, and `tokens_at` the expected tokens
        of a round at that gamma, both from the overlap protocol. `tested_at` and
        `tokens_tested_at` are the same from decoding, `tested_at_low` and `tested_at_high` the
        interval, and `tested_at_n` how many draft tokens were tested there.
    ranks: how often the first, second, ... sibling in a tree was accepted, among the positions
        that have that many siblings; None for chains. This is Sequoia's acceptance vector
        (2402.12374, section 3.1).
    acceptance: lengths of rounds and rates by position in the field's terms; None where nothing was
        decoded.
    categories: alpha by category of prompts, or alpha_tested if there is no alpha.
    tasks: the rates in `TASK_RATES` and the scores by task, which is a category or all of
        MT-bench's.
    remembers: whether its drafter remembers the prompts before.
    target_itself: whether its drafter is the target in weights that lose nothing.
    doubts: why the speedup can't be trusted, in words; empty if it can.
    prompts: how many there are.
    control: whether it is not ranked: a baseline, or a drafter that knows prompts by training.
    trained_on: how many of the prompts its weights learned from.
    """

    drafter: str
    gamma: int
    rates: Mapping[str, Interval | None]
    depths: Mapping[str, Sequence[float | None]]
    ranks: Sequence[float] | None
    acceptance: Acceptance | None
    categories: Mapping[str, Interval | None]
    counts: Counts | None
    seconds: Mapping[str, float] | None
    prediction: Prediction | None
    lossless: bool
    remembers: bool
    target_itself: bool
    tasks: Mapping[str, Mapping[str, Interval | None]]
    doubts: tuple[str, ...]
    prompts: int
    control: bool
    trained_on: int = 0

    @property
    def scores(self) -> list[str]:
        """Returns the names of the scores that the texts of its run have."""
        return [name for name in self.rates if f"{name}_difference" in self.rates]

    def plain(self) -> dict[str, Any]:
        """Returns the row as plain values, for JSON: `alpha`, `alpha_low`, `alpha_high`, ..."""
        rates: dict[str, Any] = {}
        for name, rate in self.rates.items():
            rates[name] = None if rate is None else rate.value
            rates[f"{name}_low"] = None if rate is None else rate.low
            rates[f"{name}_high"] = None if rate is None else rate.high
        return {
            "drafter": self.drafter,
            "gamma": self.gamma,
            **rates,
            "counts": None if self.counts is None else asdict(self.counts),
            "seconds": self.seconds,
            **(asdict(self.prediction) if self.prediction else {}),
            "depths": dict(self.depths),
            "acceptance_by_rank": self.ranks,
            "acceptance": None if self.acceptance is None else self.acceptance.plain(),
            "categories": _plain(self.categories),
            "tasks": {task: _plain(rates) for task, rates in self.tasks.items()},
            "lossless": self.lossless,
            "remembers": self.remembers,
            "target_itself": self.target_itself,
            "doubts": list(self.doubts),
            "prompts": self.prompts,
            "trained_on": self.trained_on,
        }


def _plain(rates: Mapping[str, Interval | None]) -> dict[str, Any]:
    return {name: None if rate is None else asdict(rate) for name, rate in rates.items()}


def ranked(rows: Sequence[Row], rate: str, task: str | None = None) -> list[Row]:
    """Returns the rows that have a rate and drafted something, the highest rate first.

    task: counts the prompts of this task only. Defaults to all prompts.
    """
    figures = {
        row.drafter: figure.value
        for row in rows
        for rates in [row.rates if task is None else row.tasks.get(task, {})]
        if (figure := rates.get(rate)) is not None and _drafted(row)
    }
    able = [row for row in rows if row.drafter in figures]
    return sorted(able, key=lambda row: -figures[row.drafter])


def by_rate(rows: Sequence[Row], rate: str) -> list[Row]:
    """Returns the rows by a rate, the highest first; those without it come last."""

    def key(row: Row) -> float:
        figure = row.rates.get(rate)
        return inf if figure is None else -figure.value

    return sorted(rows, key=key)


def _drafted(row: Row) -> bool:
    if row.counts is not None:
        return row.counts.drafted > 0
    coverage = row.rates["coverage"]
    return coverage is None or coverage.value > 0
