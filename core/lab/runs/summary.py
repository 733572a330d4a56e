"""Summary: the figures of a run with their intervals, and drafters compared pair by pair."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import final

from outrider.base.errors import ANY_FAULT, ConfigError, described
from outrider.contract.round import Counts
from outrider.lab.measuring.machine import busy
from outrider.lab.measuring.measurement import Decoding, Measurement
from outrider.lab.runs.labels import labels
from outrider.lab.runs.row import PLAIN, TASK_RATES, Details, Row, contenders, drafted, in_order
from outrider.lab.runs.run import Run
from outrider.lab.statistics.acceptance import acceptance, by_depth, by_rank
from outrider.lab.statistics.intervals import FEWEST, Interval, Statistic, interval, median, ratio
from outrider.lab.statistics.pairs import (
    Comparison,
    Pair,
    comparable,
    is_control,
    tested,
    with_tested_ends,
)
from outrider.lab.statistics.positions import by_context, by_order, by_position
from outrider.lab.statistics.prediction import predict
from outrider.lab.statistics.rates import rates_with, scores_in
from outrider.lab.statistics.times import drift_of, latency, timing_warnings

COMPARED_RATES = (("alpha", "alpha_tested"), ("block_efficiency",), ("speedup",))
"""The rates in which drafters are compared; of several in a group, the first that most have."""

PHASES = ("draft", "score", "verify")
"""The phases of a round, as a step has their seconds."""

MT_BENCH = frozenset(
    ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
)
"""MT-bench's categories, which are one task beside others, as in Spec-Bench (2401.07851)."""


@final
class Summary:
    """The rows and pairs of a run, over the prompts that every drafter has finished.

    Drafters that failed have no row.

    prompts: the ids of these prompts.
    scores: the names of the scores that its texts have.
    reference: the drafter that is compared with the others, as the run says; None for all pairs.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.reference: str | None = run.facts.get("reference")
        self.prompts: list[str] = _finished_prompts(run)
        self.scores: list[str] = scores_in(run.measurements)
        self._rates = rates_with(self.scores)
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
        """Returns the comparable pairs of drafters, a Holm family for each compared rate."""
        comparisons = []
        for rate in self.compared_rates:
            names = [row.drafter for row in self.rows if row.rates[rate] is not None]
            statistics = {name: self.statistic(name, rate) for name in names}
            for one, other in comparable(names, self.run.facts["drafters"], self.reference):
                comparisons.append(Comparison(rate, one, other, statistics[one], statistics[other]))
        return tested(comparisons)

    @cached_property
    def over_plain(self) -> list[Pair]:
        """Returns how much the speedup of each drafter is above 1, all as one Holm family."""
        speedups = {
            row.drafter: self.statistic(row.drafter, "speedup")
            for row in in_order(self.rows, "speedup")
            if row.rates["speedup"] is not None and drafted(row) and not row.control
        }
        comparisons = []
        for name, speedup in speedups.items():
            seconds = speedup.columns[:, 0]
            plain = ratio(seconds, seconds)
            comparisons.append(Comparison("speedup", name, PLAIN, speedup, plain))
        return with_tested_ends(tested(comparisons), speedups)

    @cached_property
    def task_pairs(self) -> list[Pair]:
        """Returns how much faster the others are on each task than the one that is first overall.

        These are one Holm family. Tasks with too few prompts for an interval are left out.
        """
        timed, comparisons = contenders(self.rows, "speedup"), []
        for task, prompts in self.tasks.items() if timed else ():
            first = self.statistic(timed[0].drafter, "speedup", prompts)
            for row in timed[1:] if len(prompts) >= FEWEST else ():
                names = row.drafter, timed[0].drafter
                own = self.statistic(row.drafter, "speedup", prompts)
                comparisons.append(Comparison("speedup", *names, own, first, task))
        return tested(comparisons)

    @cached_property
    def compared_rates(self) -> list[str]:
        """Returns the rates in which the drafters of this run are compared."""
        rows = [row for row in self.rows if drafted(row) and not row.control] or self.rows
        shares = (
            {rate: sum(row.rates[rate] is not None for row in rows) for rate in group}
            for group in COMPARED_RATES
        )
        return [max(share, key=lambda rate: share[rate]) for share in shares if any(share.values())]

    def statistic(self, drafter: str, rate: str, prompts: Sequence[str] | None = None) -> Statistic:
        """Returns a rate of a drafter as a statistic over prompts.

        prompts: the ids of some prompts. Defaults to all finished ones.
        """
        by_prompt = self._measurements[drafter]
        chosen = self.prompts if prompts is None else prompts
        return self._rates[rate].statistic([by_prompt[prompt] for prompt in chosen])

    def measured(self, drafter: str) -> list[list[Measurement]]:
        """Returns the measurements of a drafter, by finished prompt."""
        return [self._measurements[drafter][prompt] for prompt in self.prompts]

    @cached_property
    def details(self) -> list[Details]:
        """Returns the rows in rank order, with their details."""
        found = []
        for row in in_order(self.rows):
            own = self.measured(row.drafter)
            texts = [m.decoding for prompt in own for m in prompt if m.decoding is not None]
            places = by_position(own), by_context(own), by_order(own)
            found.append(Details(row, latency(texts), *places))
        return found

    def _interval(
        self, drafter: str, rate: str, prompts: Sequence[str] | None = None
    ) -> Interval | None:
        return interval(self.statistic(drafter, rate, prompts), self._rates[rate].scale)

    def _row(self, name: str) -> Row:
        by_prompt = self.measured(name)
        measurements = [measurement for prompt in by_prompt for measurement in prompt]
        texts = [m.decoding for m in measurements if m.decoding is not None]
        rates = {rate: self._interval(name, rate) for rate in self._rates}
        rates["speedup_median"] = median(self._speedups(name)) if texts else None
        steps = [step for text in texts for step in text.steps]
        seconds = {phase: sum(getattr(step, phase) for step in steps) for phase in PHASES}
        seconds["total"] = sum(text.seconds for text in texts)
        gamma, shown = self.run.gamma(name), (*TASK_RATES, *self.scores)
        by_category = "alpha_tested" if rates["alpha"] is None else "alpha"
        known = self.run.facts.get("trained_on", {}).get(name, ())
        trained = len({*known}.intersection(self.prompts))
        return Row(
            drafter=name,
            gamma=gamma,
            rates=rates,
            depths=by_depth(by_prompt, gamma),
            ranks=by_rank(texts),
            acceptance=acceptance(by_prompt, gamma),
            categories={
                category: self._interval(name, by_category, prompts)
                for category, prompts in _grouped(self._category).items()
            },
            counts=sum((text.counts for text in texts), Counts()) if texts else None,
            seconds=seconds if texts else None,
            prediction=predict(texts, gamma, rates["speedup"]) if texts else None,
            lossless=bool(self.run.facts["lossless"][name]),
            remembers=name in self.run.facts.get("remember", ()),
            target_itself=name in self.run.facts.get("target_itself", ()),
            tasks={
                task: {rate: self._interval(name, rate, prompts) for rate in shown}
                for task, prompts in (self.tasks.items() if texts else ())
            },
            doubts=self._doubts(name, rates, texts),
            prompts=len(self.prompts),
            control=trained > 0 or is_control(name, self.run.facts["drafters"][name]),
            trained_on=trained,
        )

    def _doubts(
        self, name: str, rates: Mapping[str, Interval | None], texts: Sequence[Decoding]
    ) -> tuple[str, ...]:
        if not any(step.drafted for text in texts for step in text.steps):
            return ()  # it is plain decoding itself
        speedups, drift = self._speedups(name), drift_of(texts)
        reasons = timing_warnings(rates, speedups, self.run.gamma(name), drift)
        states = [*self.run.facts.get("starts", ()), *self.run.facts.get("ends", ())]
        loads = [state["load"] for state in states if state.get("load") is not None]
        cores = next((state["cores"] for state in states if state.get("cores")), None)
        return (*reasons, *filter(None, [busy(max(loads, default=None), cores)]))

    def _speedups(self, name: str) -> list[float]:
        """Returns the speedup over plain decoding, by prompt."""
        sums = self.statistic(name, "speedup").columns
        return [float(plain / seconds) for plain, seconds in sums]

    @cached_property
    def tasks(self) -> dict[str, list[str]]:
        """Returns the prompts of each task.

        A task is a category of prompts. MT-bench's categories are one task if there are several of
        them, and others beside them.
        """
        categories = self._category
        shared = MT_BENCH.intersection(categories.values())
        if len(shared) > 1 and not MT_BENCH.issuperset(categories.values()):
            categories = {k: "mt_bench" if of in shared else of for k, of in categories.items()}
        return _grouped(categories)

    @cached_property
    def _category(self) -> dict[str, str]:
        by_prompt = self._measurements[self.run.drafters[0]] if self.prompts else {}
        return {prompt: own[0].category for prompt, own in by_prompt.items()}


def _grouped(labels: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns the keys that have each label, in order."""
    groups: dict[str, list[str]] = {}
    for key, label in labels.items():
        groups.setdefault(label, []).append(key)
    return groups


def _finished_prompts(run: Run) -> list[str]:
    """Returns the prompts whose turns were all measured with every drafter by every protocol."""
    missing: dict[str, int] = {}
    for prompt, *_ in run.facts["questions"] if run.drafters else ():
        missing[prompt] = missing.get(prompt, 0) + len(run.drafters) * len(run.facts["protocols"])
    for measurement in run.measurements:
        missing[measurement.prompt] -= 1
    return [prompt for prompt, count in missing.items() if count == 0]


def summarised(runs: Sequence[Run]) -> tuple[dict[str, Summary], list[str]]:
    """Returns the summaries of runs by label, and what fails in the figures of the others.

    Raises `ConfigError` if all fail.
    """
    summaries, failed = list[Summary](), list[str]()
    for run in runs:
        try:
            summary = Summary(run)
            _ = summary.rows, summary.pairs, summary.over_plain  # which it keeps
            summaries.append(summary)
        except ANY_FAULT as error:
            failed.append(f"{run.folder}: damaged, {described(error)}")
    if not summaries:
        raise ConfigError("\n".join(failed))
    names = labels([summary.run for summary in summaries])
    return dict(zip(names, summaries, strict=True)), failed
