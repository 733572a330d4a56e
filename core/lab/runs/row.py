"""Row: the figures of one drafter of a run, with their intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, final

from outrider.contract.round import Counts
from outrider.lab.statistics.acceptance import Acceptance
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.positions import Stretch
from outrider.lab.statistics.prediction import Prediction

TASK_RATES = ("speedup", "block_efficiency", "tokens_per_second")
"""The rates that are given by task, besides scores."""

PLAIN = "plain decoding"


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
    counts: Counts | None
    seconds: Mapping[str, float] | None
    prediction: Prediction | None
    depths: Mapping[str, Sequence[float | None]]
    ranks: Sequence[float] | None
    acceptance: Acceptance | None
    categories: Mapping[str, Interval | None]
    tasks: Mapping[str, Mapping[str, Interval | None]]
    doubts: tuple[str, ...]
    lossless: bool
    remembers: bool
    target_itself: bool
    prompts: int
    control: bool
    trained_on: int = 0

    @property
    def name(self) -> str:
        """Returns the drafter's name for readers: that of `none` says what it does."""
        is_plain = self.drafter.partition(",")[0] == "none"
        return PLAIN + self.drafter.removeprefix("none") if is_plain else self.drafter

    @property
    def scores(self) -> list[str]:
        """Returns the names of the scores that the texts of its run have."""
        return [name for name in self.rates if f"{name}_difference" in self.rates]

    def plain(self) -> dict[str, Any]:
        """Returns the row as plain values, for JSON: `alpha`, `alpha_low`, `alpha_high`, ..."""
        plain: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if name == "rates":
                for rate, figure in value.items():
                    for end in ("value", "low", "high"):
                        key = f"{rate}_{end}".removesuffix("_value")
                        plain[key] = None if figure is None else figure[end]
            elif name == "prediction":
                plain |= value or {}
            elif name != "control":
                plain["acceptance_by_rank" if name == "ranks" else name] = value
        return plain


@final
@dataclass(frozen=True, slots=True)
class Details:
    """A row of a run, with its acceptance by place and the times that a reader waits.

    latency: empty where nothing was decoded.
    positions, contexts, order: acceptance by position in the text, by the length of the context,
        and by the number of the prompt in the run; see `outrider.lab.statistics.positions`.
    """

    row: Row
    latency: Mapping[str, Mapping[str, float]]
    positions: Sequence[Stretch]
    contexts: Sequence[Stretch]
    order: Sequence[Stretch]

    def plain(self) -> dict[str, Any]:
        """Returns the row and its details as plain values, for JSON."""
        stretches = {"positions": self.positions, "contexts": self.contexts, "order": self.order}
        plain = {name: [asdict(each) for each in some] for name, some in stretches.items()}
        return {**self.row.plain(), "latency": self.latency, **plain}


def ranking(rows: Sequence[Row]) -> str:
    """Returns the rate that ranks drafters: speed, or tokens per call where a time is doubtful.

    It is alpha where nothing was decoded.
    """
    if any(row.rates["speedup"] is not None for row in rows if drafted(row)):
        return "block_efficiency" if any(row.doubts for row in rows) else "speedup"
    return "alpha"


def in_order(rows: Sequence[Row], rate: str | None = None) -> list[Row]:
    """Returns rows in rank order, those without the rate behind the others, and ceilings last.

    rate: that of `ranking` by default.
    """
    key, below = rate or ranking(rows), ceilings(rows)

    def place(row: Row) -> tuple[bool, float]:
        figure = row.rates.get(key)
        return row in below, inf if figure is None else -figure.value

    return sorted(rows, key=place)


def contenders(rows: Sequence[Row], rate: str) -> list[Row]:
    """Returns the rows that are ranked, which have a rate and drafted something, best first."""
    below = ceilings(rows)
    return [
        row
        for row in in_order(rows, rate)
        if row.rates.get(rate) is not None and drafted(row) and not (row.control or row in below)
    ]


def ceilings(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows that stand below the others and are not ranked, if there are others.

    The target itself drafts them, or they were trained on the prompts.
    """
    others = any(drafted(row) and not (row.control or row.target_itself) for row in rows)
    return [row for row in rows if row.target_itself or row.trained_on] if others else []


def drafted(row: Row) -> bool:
    if row.counts is not None:
        return row.counts.drafted > 0
    coverage = row.rates["coverage"]
    return coverage is None or coverage.value > 0
