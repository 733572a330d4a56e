"""Summary: the figures of a run with their intervals, and drafters compared pair by pair."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, final

from outrider.contract.counts import Counts
from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.measuring.quality import SCORES
from outrider.lab.runs.store import Run
from outrider.lab.statistics.intervals import Interval, Statistic, interval, median
from outrider.lab.statistics.pairs import Comparison, Pair, comparable, tested
from outrider.lab.statistics.prediction import Prediction, predict
from outrider.lab.statistics.profile import by_depth, by_rank
from outrider.lab.statistics.rates import RATES
from outrider.lab.statistics.timing_checks import doubts, drift

COMPARED_RATES = (("alpha", "alpha_tested"), ("block_efficiency",), ("speedup",))
"""The rates in which drafters are compared; of several in a group, the first that the run has."""

TASK_RATES = ("block_efficiency", "speedup", "tokens_per_second", *SCORES)
"""The rates that are given by task."""

MT_BENCH = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
)
"""MT-bench's categories, which are one task beside others, as in Spec-Bench (2401.07851)."""


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One drafter, over all prompts that every drafter has finished.

    rates: by name (those in `RATES`, and `speedup_median`, the median over prompts); None if the
        run has no data for the rate.
    depths: figures by depth from 1 to gamma, None where no draft got that far. `alpha_at` is the
        acceptance at a depth, given that a draft gets there, and `tokens_at` the expected tokens
        of a round at that gamma, both from the overlap protocol. `tested_at` and
        `tokens_tested_at` are the same from decoding.
    ranks: how often the first, second, ... sibling in a tree was accepted, among the positions
        that have that many siblings; None for chains. This is Sequoia's acceptance vector
        (2402.12374, section 3.1).
    categories: alpha by category of prompts, or alpha_tested if there is no alpha.
    tasks: the rates in `TASK_RATES` by task, which is a category or all of MT-bench's.
    remembers: whether its drafter remembers the prompts before.
    doubts: why the speedup can't be trusted, in words; empty if it can.
    prompts: how many there are.
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
    remembers: bool
    tasks: Mapping[str, Mapping[str, Interval | None]]
    doubts: tuple[str, ...]
    prompts: int

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
            "categories": _plain(self.categories),
            "tasks": {task: _plain(rates) for task, rates in self.tasks.items()},
            "lossless": self.lossless,
            "remembers": self.remembers,
            "doubts": list(self.doubts),
            "prompts": self.prompts,
        }


@final
class Summary:
    """The rows and pairs of a run, over the prompts that every drafter has finished.

    prompts: the ids of these prompts.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.prompts: list[str] = _finished_prompts(run)
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
        """Returns the comparable pairs of drafters in each compared rate, as one Holm family."""
        comparisons = []
        for rate in self.compared_rates:
            names = [row.drafter for row in self.rows if row.rates[rate] is not None]
            for one, other in comparable(names, self.run.facts["drafters"]):
                statistics = self.statistic(one, rate), self.statistic(other, rate)
                comparisons.append(Comparison(rate, one, other, *statistics))
        return tested(comparisons)

    @cached_property
    def compared_rates(self) -> list[str]:
        """Returns the rates in which the drafters of this run are compared."""
        present = {name for row in self.rows for name, rate in row.rates.items() if rate}
        groups = ([rate for rate in group if rate in present] for group in COMPARED_RATES)
        return [rates[0] for rates in groups if rates]

    def statistic(self, drafter: str, rate: str, prompts: Sequence[str] | None = None) -> Statistic:
        """Returns a rate of a drafter as a statistic over prompts.

        prompts: the ids of some prompts. Defaults to all finished ones.
        """
        by_prompt = self._measurements[drafter]
        chosen = self.prompts if prompts is None else prompts
        return RATES[rate].statistic([by_prompt[prompt] for prompt in chosen])

    def _interval(
        self, drafter: str, rate: str, prompts: Sequence[str] | None = None
    ) -> Interval | None:
        return interval(self.statistic(drafter, rate, prompts), RATES[rate].scale)

    def _row(self, name: str) -> Row:
        measurements = [m for prompt in self.prompts for m in self._measurements[name][prompt]]
        texts = [m.decoding for m in measurements if m.decoding is not None]
        rates = {rate: self._interval(name, rate) for rate in RATES}
        rates["speedup_median"] = median(self._speedups(name)) if texts else None
        gamma = int(self.run.facts["settings"]["gamma"])
        return Row(
            drafter=name,
            rates=rates,
            depths=by_depth(measurements, gamma),
            ranks=by_rank(texts),
            categories=self._categories(name),
            counts=sum((text.counts for text in texts), Counts()) if texts else None,
            seconds=_seconds(texts) if texts else None,
            prediction=predict(texts, gamma, rates["speedup"]) if texts else None,
            lossless=bool(self.run.facts["lossless"][name]),
            remembers=name in self.run.facts.get("remember", ()),
            tasks=self._tasks(name) if texts else {},
            doubts=self._doubts(name, rates, texts),
            prompts=len(self.prompts),
        )

    def _doubts(
        self, name: str, rates: Mapping[str, Interval | None], texts: Sequence[Decoding]
    ) -> tuple[str, ...]:
        if not any(step.drafted for text in texts for step in text.steps):
            return ()  # it is plain decoding itself
        gamma = int(self.run.facts["settings"]["gamma"])
        return doubts(rates, self._speedups(name), gamma, drift(texts))

    def _speedups(self, name: str) -> list[float]:
        """Returns the speedup over plain decoding, by prompt."""
        sums = self.statistic(name, "speedup").columns
        return [float(plain / seconds) for plain, seconds in sums]

    def _categories(self, name: str) -> dict[str, Interval | None]:
        rate = "alpha" if self._interval(name, "alpha") is not None else "alpha_tested"
        categories = {prompt: self._category(prompt) for prompt in self.prompts}
        return {
            category: self._interval(name, rate, prompts)
            for category, prompts in _grouped(categories).items()
        }

    def _tasks(self, name: str) -> dict[str, dict[str, Interval | None]]:
        return {
            task: {rate: self._interval(name, rate, prompts) for rate in TASK_RATES}
            for task, prompts in self.tasks.items()
        }

    @cached_property
    def tasks(self) -> dict[str, list[str]]:
        """Returns the prompts of each task.

        A task is a category of prompts. MT-bench's categories are one task if there are several of
        them, and others beside them.
        """
        categories = {prompt: self._category(prompt) for prompt in self.prompts}
        shared = MT_BENCH.intersection(categories.values())
        if len(shared) < 2 or MT_BENCH.issuperset(categories.values()):
            return _grouped(categories)
        return _grouped(
            {
                prompt: "mt_bench" if category in MT_BENCH else category
                for prompt, category in categories.items()
            }
        )

    def _category(self, prompt: str) -> str:
        return self._measurements[self.run.drafters[0]][prompt][0].category


def _grouped(labels: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns the keys that have each label, in order."""
    groups: dict[str, list[str]] = {}
    for key, label in labels.items():
        groups.setdefault(label, []).append(key)
    return groups


def _plain(rates: Mapping[str, Interval | None]) -> dict[str, Any]:
    return {name: None if rate is None else asdict(rate) for name, rate in rates.items()}


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
