"""Gate: whether drafters fell behind a baseline by more than is allowed, beyond chance."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from outrider.base.errors import require
from outrider.cli.settings import Condition
from outrider.lab.runs.across import matched, shared_prompts
from outrider.lab.runs.run import Run, load
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import shifted
from outrider.lab.statistics.pairs import Comparison, Pair, tested
from outrider.lab.tables.details import out_of_reach
from outrider.lab.tables.table import column_of


@final
@dataclass(frozen=True, slots=True)
class Gate:
    """What a run is held to: a condition, and the figures of the run before."""

    baseline: Summary
    condition: Condition

    @classmethod
    def of(cls, folder: str | None, condition: Condition | None) -> Self | None:
        """Returns the gate of a baseline's folder; None if there is neither.

        Raises `ConfigError` if one is given without the other, or the baseline lacks the rate.
        """
        if folder is None or condition is None:
            given = "fail_if" if folder is None else "baseline"
            both = folder is None and condition is None
            require(both, given, folder or str(condition), "both baseline and fail_if, or neither")
            return None
        baseline = Summary(load(Path(folder).expanduser()))
        known = any(row.rates.get(condition.rate) is not None for row in baseline.rows)
        require(known, "baseline", folder, f"a run with {condition.rate}")
        return cls(baseline, condition)

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raises `ConfigError` if a run with these facts has nothing to compare with."""
        run, saved = Run.of(Path(), facts, ()), self.baseline.run
        expected = f"a run with any of {', '.join(saved.drafters)}"
        require(bool(matched(run, saved)), "baseline", ", ".join(run.drafters), expected)
        asked = {(prompt, text) for prompt, _, text in facts["questions"]}
        shared = asked & {(prompt, text) for prompt, _, text in saved.facts["questions"]}
        require(bool(shared), "baseline", str(saved.folder), "a run on some of these prompts")
        source = column_of(self.condition.rate).source
        protocol = "overlap" if source == "overlap" else "decode"
        expected = f"a rate of protocol={' and '.join(facts['protocols'])}"
        require(protocol in facts["protocols"], "fail_if", self.condition.rate, expected)

    def pairs(self, summary: Summary) -> list[Pair]:
        """Returns how far each drafter is from the baseline's plus the number; one Holm family."""
        rate, prompts = self.condition.rate, shared_prompts(summary, self.baseline)
        comparisons = []
        for one, other in matched(summary.run, self.baseline.run) if prompts else ():
            before = self.baseline.statistic(other, rate, prompts)
            least = shifted(before, self.condition.below)
            own = summary.statistic(one, rate, prompts)
            comparisons.append(Comparison(rate, one, other, own, least))
        return tested(comparisons)

    def judged(self, summary: Summary) -> tuple[bool, str]:
        """Returns whether a run passes, and a line that says why.

        It fails if a test shows that a drafter is below. Times that can't be trusted fail nothing.
        """
        doubts, pairs = self._doubts(summary), self.pairs(summary)
        below = [pair for pair in pairs if pair.significant and pair.difference.value < 0]
        said = f"fail_if, {self.condition}"
        if doubts or not pairs:
            return True, f"{said}: not judged, {doubts or 'no prompt is finished in both runs'}"
        if below:
            return False, f"{said}: {'; '.join(map(self._worded, below))}"
        few = out_of_reach(pairs[0].prompts, len(pairs))
        nearest = min(pairs, key=lambda pair: pair.difference.value)
        return True, f"{said}: {'; '.join([f'not shown, {self._worded(nearest)}', *few])}"

    def _worded(self, pair: Pair) -> str:
        gap = pair.difference.value + self.condition.below
        p = f" (p = {pair.p_holm:.2g})" if pair.difference.value < 0 else ""
        return f"{pair.one} {gap:+.3f} on {pair.prompts} prompts{p}"

    def _doubts(self, summary: Summary) -> str:
        is_timed = column_of(self.condition.rate).source == "clock"
        rows = (*summary.rows, *self.baseline.rows) * is_timed
        return next((f"timings are unreliable: {why}" for row in rows for why in row.doubts), "")
