"""Summary: the figures of a run, each with its interval, and the drafters pair by pair."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, final

from outrider.contract.counts import Counts
from outrider.lab.intervals import Bootstrap, Interval, difference, exchange_p, holm, median, ratio
from outrider.lab.measurement import Decoding, Measurement
from outrider.lab.prediction import Prediction, predict
from outrider.lab.profile import by_depth, by_rank
from outrider.lab.store import Run

Share = tuple[list[float], list[float]]
"""What is above and what is below a rate, by prompt."""

RATES = (
    "alpha",
    "coverage",
    "alpha_rule",
    "expected_alpha_tested",
    "expected_block_efficiency",
    "alpha_tested",
    "acceptance_rate",
    "block_efficiency",
    "tokens_per_second",
    "speedup",
)
"""Every figure that has an interval; docs/measures.md says what each is."""

COMPARED = ("alpha", "alpha_tested", "block_efficiency")
"""The rates in which drafters are compared pair by pair."""


@final
@dataclass(frozen=True)
class Row:
    """One drafter over all prompts that every drafter has finished.

    rates: by name, of RATES; None where there is no such figure.
    depths: by name a figure for each depth 1..gamma, None where no draft got there. Of the
        overlap protocol: `alpha_at`, the acceptance at that depth given that a draft gets there,
        and `tokens_at`, the expected tokens of a round at that gamma; of decoding the same two
        as `tested_at` and `tokens_tested_at`.
    ranks: how often the first, second, ... of the siblings in a tree was the accepted one, given
        that there were so many; None for chains. Sequoia's acceptance vector (2402.12374, 3.1).
    categories: alpha, or where there is none alpha_tested, of each category of prompts.
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
        """Returns the row for JSON: `alpha`, `alpha_low`, `alpha_high`, and so on."""
        rates: dict[str, Any] = {}
        for name, found in self.rates.items():
            rates[name] = None if found is None else found.value
            rates[f"{name}_low"] = None if found is None else found.low
            rates[f"{name}_high"] = None if found is None else found.high
        return {
            "drafter": self.drafter,
            **rates,
            "counts": None if self.counts is None else asdict(self.counts),
            "seconds": self.seconds,
            **(self.prediction.plain() if self.prediction else {}),
            "depths": dict(self.depths),
            "acceptance_by_rank": self.ranks,
            "categories": {
                name: None if found is None else asdict(found)
                for name, found in self.categories.items()
            },
            "lossless": self.lossless,
        }


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """How far two drafters are apart in a rate, on the same prompts.

    p: of the two being alike (see `exchange_p`). p_holm: the same, corrected for all pairs.
    """

    rate: str
    one: str
    other: str
    difference: Interval
    p: float
    p_holm: float


@final
class Summary:
    """The rows and pairs of a run, over the prompts that every drafter has finished."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.prompts = _finished(run)
        self._kept: dict[str, dict[str, list[Measurement]]] = {
            name: {prompt: [] for prompt in self.prompts} for name in run.drafters
        }
        for each in run.measurements:
            if each.prompt in self._kept[each.drafter]:
                self._kept[each.drafter][each.prompt].append(each)

    @cached_property
    def rows(self) -> list[Row]:
        """Returns a row for each drafter, in the order asked for; none without a prompt."""
        return [self._row(name) for name in self.run.drafters] if self.prompts else []

    @cached_property
    def pairs(self) -> list[Pair]:
        """Returns each pair of drafters, in each compared rate that both have."""
        return [pair for rate in COMPARED for pair in self._pairs(rate)] if self.prompts else []

    def share(self, drafter: str, rate: str) -> Share:
        """Returns what is above and below a rate, by prompt."""
        above, below = SHARES[rate]
        kept = self._kept[drafter]
        return (
            [sum(map(above, kept[prompt])) for prompt in self.prompts],
            [sum(map(below, kept[prompt])) for prompt in self.prompts],
        )

    def _row(self, name: str) -> Row:
        every = [each for prompt in self.prompts for each in self._kept[name][prompt]]
        texts = [each.decoding for each in every if each.decoding is not None]
        bootstrap = Bootstrap(len(self.prompts))
        rates = {rate: bootstrap.interval(ratio(*self.share(name, rate))) for rate in SHARES}
        rates["speedup"] = None
        if texts:
            rates["speedup"] = bootstrap.interval(median(self._speedups(name)))
        counts = sum((text.counts for text in texts), Counts()) if texts else None
        gamma = int(self.run.facts["settings"]["gamma"])
        return Row(
            drafter=name,
            rates=rates,
            depths=by_depth(every, gamma),
            ranks=by_rank(texts),
            categories=self._categories(name),
            counts=counts,
            seconds=_seconds(texts) if texts else None,
            prediction=predict(texts, gamma, rates["speedup"]) if texts else None,
            lossless=bool(self.run.facts["lossless"][name]),
        )

    def _speedups(self, name: str) -> list[float]:
        found = []
        for prompt in self.prompts:
            texts = [each.decoding for each in self._kept[name][prompt] if each.decoding]
            plain = sum(text.plain_seconds * text.counts.emitted for text in texts)
            found.append(plain / sum(text.seconds for text in texts))
        return found

    def _categories(self, name: str) -> dict[str, Interval | None]:
        found: dict[str, Interval | None] = {}
        above, below = self.share(name, "alpha")
        if not any(below):
            above, below = self.share(name, "alpha_tested")
        kinds = [self._kept[name][prompt][0].category for prompt in self.prompts]
        for kind in dict.fromkeys(kinds):
            here = [index for index, other in enumerate(kinds) if other == kind]
            share = [above[i] for i in here], [below[i] for i in here]
            found[kind] = Bootstrap(len(here)).interval(ratio(*share))
        return found

    def _pairs(self, rate: str) -> list[Pair]:
        names = [row.drafter for row in self.rows if row.rates[rate] is not None]
        bootstrap = Bootstrap(len(self.prompts))
        found = []
        for one, other in itertools.combinations(names, 2):
            shares = self.share(one, rate), self.share(other, rate)
            gap = bootstrap.interval(difference(*(ratio(*share) for share in shares)))
            if gap is not None:
                found.append((one, other, gap, exchange_p(*shares)))
        corrected = holm([p for *_, p in found])
        return [
            Pair(rate, one, other, gap, p, p_holm)
            for (one, other, gap, p), p_holm in zip(found, corrected, strict=True)
        ]


def _overlapped(field: str, place: int = 0) -> Callable[[Measurement], float]:
    return lambda each: getattr(each.overlap, field)[place] if each.overlap else 0.0


def _counted(*fields: str) -> Callable[[Measurement], float]:
    def total(each: Measurement) -> float:
        if each.decoding is None:
            return 0.0
        counts = each.decoding.counts
        return float(sum(getattr(counts, field) for field in fields))

    return total


SHARES: dict[str, tuple[Callable[[Measurement], float], Callable[[Measurement], float]]] = {
    "alpha": (_overlapped("beta"), _overlapped("prefixes")),
    "coverage": (_overlapped("reached"), _overlapped("prefixes")),
    "alpha_rule": (
        lambda each: each.overlap.by_rule or 0.0 if each.overlap else 0.0,
        lambda each: (
            each.overlap.prefixes[0] if each.overlap and each.overlap.by_rule is not None else 0.0
        ),
    ),
    "expected_alpha_tested": (_overlapped("accepted", -1), _overlapped("tested", -1)),
    "expected_block_efficiency": (
        lambda each: each.overlap.accepted[-1] + each.overlap.rounds[-1] if each.overlap else 0.0,
        _overlapped("rounds", -1),
    ),
    "alpha_tested": (_counted("accepted"), _counted("tested")),
    "acceptance_rate": (_counted("accepted"), _counted("drafted")),
    "block_efficiency": (_counted("accepted", "rounds"), _counted("rounds")),
    "tokens_per_second": (
        _counted("emitted"),
        lambda each: each.decoding.seconds if each.decoding else 0.0,
    ),
}
"""What is summed above and below each rate."""


def _finished(run: Run) -> list[str]:
    """Returns the prompts of which every turn was measured with every drafter as asked."""
    wanted: dict[str, int] = {}
    for prompt, *_ in run.facts["questions"]:
        wanted[prompt] = wanted.get(prompt, 0) + len(run.drafters) * len(run.facts["protocols"])
    for each in run.measurements:
        wanted[each.prompt] -= 1
    return [prompt for prompt, missing in wanted.items() if missing == 0]


def _seconds(texts: Sequence[Decoding]) -> dict[str, float]:
    phases = {
        phase: sum(getattr(step, phase) for text in texts for step in text.steps)
        for phase in ("draft", "score", "verify")
    }
    return phases | {"total": sum(text.seconds for text in texts)}
