"""Summary: the figures of a run with their intervals, and drafters compared pair by pair."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, final

from outrider.contract.counts import Counts
from outrider.lab.intervals import Bootstrap, Interval, difference, exchange_p, holm, median, ratio
from outrider.lab.measurement import Decoding, Measurement
from outrider.lab.overlap import Overlap
from outrider.lab.prediction import Prediction, predict
from outrider.lab.profile import by_depth, by_rank
from outrider.lab.store import Run

Ratio = tuple[list[float], list[float]]
"""The numerators and the denominators of a rate, by prompt."""

COMPARED_RATES = ("alpha", "alpha_tested", "block_efficiency")
"""The rates in which drafters are compared pair by pair."""


@final
@dataclass(frozen=True)
class Row:
    """One drafter, over all prompts that every drafter has finished.

    rates: by name (those in `RATIOS`, and `speedup`); None if the run has no data for the rate.
    depths: figures by depth from 1 to gamma, None where no draft got that far. `alpha_at` is the
        acceptance at a depth, given that a draft gets there, and `tokens_at` the expected tokens
        of a round at that gamma, both from the overlap protocol. `tested_at` and
        `tokens_tested_at` are the same from decoding.
    ranks: how often the first, second, ... sibling in a tree was accepted, among the positions
        that have that many siblings; None for chains. This is Sequoia's acceptance vector
        (2402.12374, section 3.1).
    categories: alpha by category of prompts, or alpha_tested if there is no alpha.
    """

    drafter: str
    rates: Mapping[str, Interval | None]
    depths: Mapping[str, Sequence[float | None]]
    ranks: Sequence[float] | None
    categories: Mapping[str, Interval | None]
    counts: Counts | None
    seconds: Mapping[str, float] | None
    prediction: Prediction | None
    lossless: bool

    def plain(self) -> dict[str, Any]:
        """Returns the row as plain values, for JSON: `alpha`, `alpha_low`, `alpha_high`, ..."""
        rates: dict[str, Any] = {}
        for name, rate in self.rates.items():
            rates[name] = None if rate is None else rate.value
            rates[f"{name}_low"] = None if rate is None else rate.low
            rates[f"{name}_high"] = None if rate is None else rate.high
        return {
            "drafter": self.drafter,
            **rates,
            "counts": None if self.counts is None else asdict(self.counts),
            "seconds": self.seconds,
            **(self.prediction.plain() if self.prediction else {}),
            "depths": dict(self.depths),
            "acceptance_by_rank": self.ranks,
            "categories": {
                name: None if rate is None else asdict(rate)
                for name, rate in self.categories.items()
            },
            "lossless": self.lossless,
        }


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """The difference between two drafters in a rate, on the same prompts.

    difference: `one` minus `other`.
    p: p-value of the two being equal (see `exchange_p`). p_holm: the same, corrected for all pairs.
    """

    rate: str
    one: str
    other: str
    difference: Interval
    p: float
    p_holm: float


@final
class Summary:
    """The rows and pairs of a run, over the prompts that every drafter has finished.

    prompts: the ids of these prompts.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.prompts = _finished_prompts(run)
        self._measurements: dict[str, dict[str, list[Measurement]]] = {
            name: {prompt: [] for prompt in self.prompts} for name in run.drafters
        }
        for measurement in run.measurements:
            by_prompt = self._measurements[measurement.drafter]
            if measurement.prompt in by_prompt:
                by_prompt[measurement.prompt].append(measurement)

    @cached_property
    def rows(self) -> list[Row]:
        """Returns a row for each drafter, in the run's order; empty if no prompt is finished."""
        return [self._row(name) for name in self.run.drafters] if self.prompts else []

    @cached_property
    def pairs(self) -> list[Pair]:
        """Returns each pair of drafters, for each compared rate that both have."""
        if not self.prompts:
            return []
        return [pair for rate in COMPARED_RATES for pair in self._pairs(rate)]

    def ratio_by_prompt(self, drafter: str, rate: str) -> Ratio:
        """Returns the numerators and denominators of a rate, by prompt."""
        numerator, denominator = RATIOS[rate]
        by_prompt = self._measurements[drafter]
        return (
            [sum(map(numerator, by_prompt[prompt])) for prompt in self.prompts],
            [sum(map(denominator, by_prompt[prompt])) for prompt in self.prompts],
        )

    def _row(self, name: str) -> Row:
        measurements = [m for prompt in self.prompts for m in self._measurements[name][prompt]]
        texts = [m.decoding for m in measurements if m.decoding is not None]
        bootstrap = Bootstrap(len(self.prompts))
        rates = {
            rate: bootstrap.interval(ratio(*self.ratio_by_prompt(name, rate))) for rate in RATIOS
        }
        rates["speedup"] = None
        if texts:
            rates["speedup"] = bootstrap.interval(median(self._speedups(name)))
        counts = sum((text.counts for text in texts), Counts()) if texts else None
        gamma = int(self.run.facts["settings"]["gamma"])
        return Row(
            drafter=name,
            rates=rates,
            depths=by_depth(measurements, gamma),
            ranks=by_rank(texts),
            categories=self._categories(name),
            counts=counts,
            seconds=_seconds(texts) if texts else None,
            prediction=predict(texts, gamma, rates["speedup"]) if texts else None,
            lossless=bool(self.run.facts["lossless"][name]),
        )

    def _speedups(self, name: str) -> list[float]:
        """Returns the speedup over plain decoding, by prompt."""
        speedups = []
        for prompt in self.prompts:
            texts = [m.decoding for m in self._measurements[name][prompt] if m.decoding]
            plain = sum(text.plain_seconds * text.counts.emitted for text in texts)
            speedups.append(plain / sum(text.seconds for text in texts))
        return speedups

    def _categories(self, name: str) -> dict[str, Interval | None]:
        numerators, denominators = self.ratio_by_prompt(name, "alpha")
        if not any(denominators):
            numerators, denominators = self.ratio_by_prompt(name, "alpha_tested")
        categories = [self._measurements[name][prompt][0].category for prompt in self.prompts]
        rates: dict[str, Interval | None] = {}
        for category in dict.fromkeys(categories):
            members = [index for index, other in enumerate(categories) if other == category]
            statistic = ratio([numerators[i] for i in members], [denominators[i] for i in members])
            rates[category] = Bootstrap(len(members)).interval(statistic)
        return rates

    def _pairs(self, rate: str) -> list[Pair]:
        names = [row.drafter for row in self.rows if row.rates[rate] is not None]
        bootstrap = Bootstrap(len(self.prompts))
        differences = []
        for one, other in itertools.combinations(names, 2):
            ratios = self.ratio_by_prompt(one, rate), self.ratio_by_prompt(other, rate)
            gap = bootstrap.interval(difference(ratio(*ratios[0]), ratio(*ratios[1])))
            if gap is not None:
                differences.append((one, other, gap, exchange_p(*ratios)))
        corrected = holm([p for *_, p in differences])
        return [
            Pair(rate, one, other, gap, p, p_holm)
            for (one, other, gap, p), p_holm in zip(differences, corrected, strict=True)
        ]


def _of_overlap(field: Callable[[Overlap], float]) -> Callable[[Measurement], float]:
    """Returns a figure of the overlap protocol; it is 0 for measurements of decoding."""
    return lambda measurement: field(measurement.overlap) if measurement.overlap else 0.0


def _of_counts(field: Callable[[Counts], int]) -> Callable[[Measurement], float]:
    """Returns a count of decoding; it is 0 for measurements of the overlap protocol."""
    return lambda measurement: (
        float(field(measurement.decoding.counts)) if measurement.decoding else 0.0
    )


RATIOS: dict[str, tuple[Callable[[Measurement], float], Callable[[Measurement], float]]] = {
    "alpha": (
        _of_overlap(lambda sums: sums.beta[0]),
        _of_overlap(lambda sums: sums.prefixes[0]),
    ),
    "coverage": (
        _of_overlap(lambda sums: sums.reached[0]),
        _of_overlap(lambda sums: sums.prefixes[0]),
    ),
    "alpha_rule": (
        _of_overlap(lambda sums: sums.by_rule or 0.0),
        _of_overlap(lambda sums: 0.0 if sums.by_rule is None else sums.prefixes[0]),
    ),
    "alpha_ceiling": (
        _of_overlap(lambda sums: sums.ceiling[0]),
        _of_overlap(lambda sums: sums.ceiling[1]),
    ),
    "expected_alpha_tested": (
        _of_overlap(lambda sums: sums.accepted[-1]),
        _of_overlap(lambda sums: sums.tested[-1]),
    ),
    "expected_block_efficiency": (
        _of_overlap(lambda sums: sums.accepted[-1] + sums.rounds[-1]),
        _of_overlap(lambda sums: sums.rounds[-1]),
    ),
    "alpha_tested": (
        _of_counts(lambda counts: counts.accepted),
        _of_counts(lambda counts: counts.tested),
    ),
    "acceptance_rate": (
        _of_counts(lambda counts: counts.accepted),
        _of_counts(lambda counts: counts.drafted),
    ),
    "block_efficiency": (
        _of_counts(lambda counts: counts.accepted + counts.rounds),
        _of_counts(lambda counts: counts.rounds),
    ),
    "tokens_per_second": (
        _of_counts(lambda counts: counts.emitted),
        lambda measurement: measurement.decoding.seconds if measurement.decoding else 0.0,
    ),
}
"""By rate, its numerator and denominator in a measurement; docs/measures.md explains the rates."""


def _finished_prompts(run: Run) -> list[str]:
    """Returns the prompts whose turns were all measured with every drafter by every protocol."""
    missing: dict[str, int] = {}
    for prompt, *_ in run.facts["questions"]:
        missing[prompt] = missing.get(prompt, 0) + len(run.drafters) * len(run.facts["protocols"])
    for measurement in run.measurements:
        missing[measurement.prompt] -= 1
    return [prompt for prompt, count in missing.items() if count == 0]


def _seconds(texts: Sequence[Decoding]) -> dict[str, float]:
    steps = [step for text in texts for step in text.steps]
    return {
        "draft": sum(step.draft for step in steps),
        "score": sum(step.score for step in steps),
        "verify": sum(step.verify for step in steps),
        "total": sum(text.seconds for text in texts),
    }
