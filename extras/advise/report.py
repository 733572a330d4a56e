"""What `outrider advise` prints: the advice, its reasons, where drafts collapse, lines to paste."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.terminal import plain, remarks, results
from outrider.extras.advise.advice import Advice, expected
from outrider.extras.advise.forecast import Setting
from outrider.extras.advise.groups import Group, worst
from outrider.extras.advise.measure import Found
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.pairs import LEVEL


@final
@dataclass(frozen=True)
class Outcome:
    """What was found for so many texts at once and such prompts.

    context: the tokens of the prompts; None where they are as they came.
    measured: the speedups on the other half, of the first drafters of the advice.
    checked: the measurements there. groups: where the first drafter is good, on the first half.
    costs: by drafter, the seconds of a round by the most tokens of its draft, from 0.
    """

    texts: int
    context: int | None
    advice: Advice
    measured: Mapping[str, Interval | None]
    checked: Found
    groups: Sequence[Group]
    costs: Mapping[str, Sequence[float]]

    def plain(self) -> dict[str, Any]:
        """Returns the outcome as plain values, for JSON."""
        advice, first = self.advice, self.advice.first
        return {
            "texts": self.texts,
            "context": self.context,
            "pays": advice.pays,
            "drafter": first.drafter,
            "gamma": first.gamma,
            "as_good": list(advice.near),
            "needed": advice.needed,
            "lead": None if advice.lead is None else asdict(advice.lead),
            "over_plain": [asdict(pair) for pair in advice.over_plain],
            "settings": [self._plain(setting) for setting in advice.best],
            "groups": [asdict(group) for group in self.groups],
        }

    def _plain(self, setting: Setting) -> dict[str, Any]:
        measured = self.measured.get(setting.drafter)
        return {
            "drafter": setting.drafter,
            "gamma": setting.gamma,
            "tokens": setting.tokens,
            "cost": setting.cost,
            **expected(setting).named("expected"),
            **({} if measured is None else measured.named("measured")),
        }


def print_report(
    outcomes: Sequence[Outcome], left_out: Mapping[str, str], pasted: Mapping[str, str]
) -> None:
    """Prints the advice for each number of texts and each length, then what is said once."""
    console = results()
    for outcome in outcomes:
        console.print(_table(outcome))
        for line in said(outcome):
            console.print(plain(line), soft_wrap=True)
    groups = outcomes[0].groups
    if groups:
        console.print(_groups_table(outcomes[0].advice.first.drafter, groups))
        if (lowest := worst(groups)) is not None:
            line = f"Worst: {lowest.kind} {lowest.name}, {_figure(lowest.accepted)} accepted."
            console.print(plain(line))
    for engine, line in pasted.items() if outcomes[0].advice.pays else ():
        console.print(plain(f"{engine}: {line}"), soft_wrap=True)
    for name, reason in left_out.items():
        remarks(stderr=False).print(plain(f"left out: {name}, {reason}", "dim"), soft_wrap=True)


def said(outcome: Outcome) -> list[str]:
    """Returns the advice in sentences: what to do, how sure that is, and why."""
    advice, first = outcome.advice, outcome.advice.first
    name, speed = f"{first.drafter} with gamma {first.gamma}", _figure(expected(first), 2)
    why = f"a round takes {first.cost:.2f} of plain decoding's and writes {first.tokens:.2f} tokens"
    pair = advice.over_plain[0]
    if not advice.pays:
        return [f"Don't draft here: the best, {name}, is expected to bring {speed}: {why}."]
    doubt = "" if pair.significant else f", but that could be chance (p = {pair.p_holm:.2g})"
    sentences = [f"Draft by {name}: {speed} times plain decoding is expected{doubt}: {why}."]
    if len(advice.near) > 1:
        sentences.append(f"About as good: gamma {', '.join(map(str, advice.near))}.")
    if advice.lead is not None:
        other = advice.best[1]
        needed = (
            "too few prompts to tell how many"
            if advice.needed is None
            else f"about {advice.needed}"
        )
        clear = (
            f"it is behind (p = {advice.lead.p:.2g})"
            if advice.lead.p < LEVEL
            else f"{needed} prompts would tell them apart (p = {advice.lead.p:.2g})"
        )
        runner = f"{other.drafter} with gamma {other.gamma}, {_figure(expected(other), 2)}"
        sentences.append(f"Runner-up: {runner}; {clear}.")
    return sentences


def _table(outcome: Outcome) -> Table:
    """Returns the drafters, the best first: what is expected of them, and what was measured."""
    context = "" if outcome.context is None else f", prompts of {outcome.context} tokens"
    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        title=f"{outcome.texts} at once{context}",
        title_justify="left",
    )
    table.add_column("drafter")
    for heading in (
        "gamma",
        "tokens",
        "time of\na round",
        "expected\nspeedup",
        "measured",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for setting in outcome.advice.best:
        measured = outcome.measured.get(setting.drafter)
        table.add_row(
            plain(setting.drafter),
            str(setting.gamma),
            f"{setting.tokens:.2f}",
            f"{setting.cost:.2f}",
            _figure(expected(setting), 2),
            "" if measured is None else _figure(measured, 2),
        )
    return table


def _groups_table(drafter: str, groups: Sequence[Group]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, title=f"where {drafter} is accepted")
    table.title_justify = "left"
    for heading in ("kind", "group"):
        table.add_column(heading)
    for heading in ("accepted", "tested"):
        table.add_column(heading, justify="right")
    for group in groups:
        table.add_row(group.kind, plain(group.name), _figure(group.accepted), str(group.tested))
    return table


def _figure(interval: Interval, digits: int = 3) -> str:
    """Returns a figure with its interval, if it has one."""
    if interval.low is None or interval.high is None:
        return f"{interval.value:.{digits}f}"
    return f"{interval.value:.{digits}f} ({interval.low:.{digits}f}-{interval.high:.{digits}f})"
