"""The table of the rates of runs, in rank order, with tests and what a reader has to know."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from outrider.lab.runs.conclusion import history, unreliable
from outrider.lab.runs.row import Row, ceilings, drafted, in_order, ranking
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST, Interval
from outrider.lab.statistics.pairs import LEVEL, Pair
from outrider.lab.tables.details import out_of_reach
from outrider.lab.tables.table import (
    RATES,
    Cell,
    Column,
    Figure,
    Table,
    column_of,
    measured_rates,
    names_of,
)

VERDICT = Column(
    "faster than\nplain?",
    "faster_than_plain",
    meaning="whether a test shows it, corrected for the number of drafters",
    kind="name",
)
"""The column of the test against plain decoding."""

SHORT = 5
"""The columns that are shown at first."""

SPEED_FIRST = ("speedup", "block_efficiency", "alpha_tested", VERDICT.name, "alpha")
TOKENS_FIRST = ("block_efficiency", "alpha_tested", "speedup", "alpha")
"""The columns that come first: those of speed, or where times are doubtful the others."""

STARS = {LEVEL: "*", 0.01: "**", 0.001: "***"}
"""By p-value, the mark of a difference with a smaller one."""

MEMORY = "remembers the prompts before, in their order; each repeat begins with an empty memory"
"""The caveat for a drafter that remembers texts."""

ITSELF = "the target's own weights: a ceiling, not a contender"
"""The caveat for a drafter that predicts nothing."""

Stars = Mapping[tuple[str, str], str]
"""By drafter and rate, what stands behind the figure."""


def rates_table(
    rows: Mapping[str, Sequence[Row]],
    title: str,
    *,
    over_plain: Sequence[Pair] = (),
    columns: Sequence[str] | None = None,
    stars: Mapping[str, Stars] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Returns the table of one or more runs, each in rank order and with its ceilings at the end.

    rows: by the run's label, which is empty if there is only one run.
    over_plain: the tests against plain decoding. Where prompts are enough for them, their verdicts
        stand in a column, and a speedup has the interval of its test.
    columns: the names of rates. Defaults to all that do not repeat another.
    stars: by the run's label; None if figures have none. notes: first among those of the table.
    """
    all_rows = [row for run in rows.values() for row in run]
    verdicts = {pair.one: pair for pair in over_plain if pair.reachable}
    names = columns_of(all_rows, bool(verdicts)) if columns is None else columns
    shown = [VERDICT if name == VERDICT.name else column_of(name) for name in names]
    if stars is not None or columns is not None:
        shown = [replace(column, spare=0) for column in shown]
    ordered = [(label, row) for label, run in rows.items() for row in in_order(run)]
    below = [row for run in rows.values() for row in ceilings(run)]
    some_are_lossless = any(row.lossless for row in all_rows)
    mark_doubts = some_times_are_sure(all_rows)

    def cells(label: str, row: Row) -> Iterable[Cell]:
        yield from [label] if len(rows) > 1 else []
        yield row.name + " (lossy)" * (not row.lossless and some_are_lossless)
        known, pair = (stars or {}).get(label, {}), verdicts.get(row.drafter)
        for name in names:
            if name == VERDICT.name:
                yield verdict(pair)
            elif name == "speedup" and pair is not None:
                yield figure_of(tested_speedup(pair), name)
            else:
                yield rate_figure(row, name, known, mark_doubts=mark_doubts)

    return Table(
        title,
        (*names_of("drafter", runs=len(rows) > 1), *shown),
        tuple(tuple(cells(label, row)) for label, row in ordered),
        (*notes, *caveats(rows)),
        ceilings=tuple(number for number, (_, row) in enumerate(ordered) if row in below),
    )


def columns_of(rows: Sequence[Row], has_verdicts: bool) -> list[str]:
    """Returns the names of the columns that do not repeat another, those that matter most first."""
    rates = measured_rates(rows)
    if "alpha_tested" in rates:  # measured, so their expectation is not needed
        rates = [rate for rate in rates if not rate.startswith("expected")]
        if "alpha" in rates:  # there are two rates of acceptance already
            rates = [rate for rate in rates if rate != "acceptance_rate"]
    rates += [VERDICT.name] * (has_verdicts and ranking(rows) == "speedup")
    order = SPEED_FIRST if ranking(rows) == "speedup" else TOKENS_FIRST
    first = [name for name in order if name in rates]
    return [*first, *(rate for rate in rates if rate not in first)]


def verdict(pair: Pair | None) -> str:
    """Returns whether a test shows a drafter to be faster than plain decoding; empty without."""
    if pair is None:
        return ""
    if not pair.significant:
        return "not certain"
    return "yes" if pair.difference.value > 0 else "no"


def tested_speedup(pair: Pair) -> Interval:
    """Returns a speedup with the ends that its test against plain decoding does not reject."""
    gap = pair.difference
    ends = [None if end is None else 1 + end for end in (gap.low, gap.high)]
    return Interval(1 + gap.value, *ends)


def starred_rates_table(summaries: Mapping[str, Summary], title: str) -> Table:
    """Returns the rates of one or more runs, by label, with the stars of each run's tests."""
    rows = {label: summary.rows for label, summary in summaries.items()}
    stars = {label: stars_of(summary) for label, summary in summaries.items()}
    past = [line for summary in summaries.values() for line in history(summary.run)]
    notes = [*star_notes(summaries.values()), *past]
    return rates_table(rows, title, stars=stars, notes=notes)


def some_times_are_sure(rows: Iterable[Row]) -> bool:
    """Returns whether doubtful times stand beside others, so that a mark tells them apart."""
    return any(drafted(row) and not row.doubts for row in rows)


def rate_figure(
    row: Row, rate: str, stars: Stars | None = None, *, mark_doubts: bool
) -> Figure | None:
    """Returns the figure of a rate, with its stars: none where the clock is doubtful.

    mark_doubts: whether doubtful times have a mark; a drafter that was trained on the prompts has
        one in any case.
    """
    is_doubtful = bool(row.doubts) and rate in RATES and RATES[rate].source == "clock"
    mark = " !" * (row.trained_on > 0 or (is_doubtful and mark_doubts))
    known = {} if is_doubtful or row.trained_on else stars or {}
    return figure_of(row.rates.get(rate), rate, mark + known.get((row.drafter, rate), ""))


def figure_of(interval: Interval | None, rate: str, mark: str = "") -> Figure | None:
    """Returns a rate as a figure of a table; None if it was not measured."""
    if interval is None:
        return None
    signed = rate.endswith("_difference")
    return Figure(interval, column_of(rate).digits, mark, signed=signed)


def caveats(runs: Mapping[str, Sequence[Row]]) -> list[str]:
    """Returns what a reader of these rows has to know: lossy rules, few prompts, doubts.

    runs: the rows of each run, by its label.
    """
    rows = [row for run in runs.values() for row in run]
    has_alpha = any(row.rates["alpha"] for row in rows)

    def who(holds: Callable[[Row], Any]) -> str:
        return ", ".join(dict.fromkeys(row.drafter for row in rows if holds(row)))

    said = {
        MEMORY: who(lambda row: row.remembers),
        ITSELF: who(lambda row: row.target_itself),
        "no alpha, since it drafts trees or depends on earlier rounds": who(
            lambda row: has_alpha and not row.rates["alpha"]
        ),
    }
    lines = [f"{names}: {what}" for what, names in said.items() if names]
    if lossy := who(lambda row: not row.lossless):
        whose = f" of {lossy}" if any(row.lossless for row in rows) else ""
        lines.insert(0, f"LOSSY: the rule{whose} does not keep the target's distribution")
    fewest = min((row.prompts for row in rows), default=FEWEST)
    if fewest < FEWEST:
        count = f"{fewest} prompt{'s' if fewest > 1 else ''}"
        lines.append(f"no intervals: {count}, and below {FEWEST} the spread is not known")
    return [*lines, *filter(None, [unreliable(runs)])]


def stars_of(summary: Summary) -> dict[tuple[str, str], str]:
    """Returns the stars of the figures of a run, by the tests of its pairs.

    With a reference, those that differ from it. Otherwise the largest figure of a rate, if it is
    above each of the others that it was compared with.
    """
    found: dict[tuple[str, str], str] = {}
    for rate in summary.compared_rates:
        pairs = [pair for pair in summary.pairs if pair.rate == rate]
        if summary.reference is not None:
            found |= {(pair.other, rate): _stars(pair.p_holm) for pair in pairs}
            continue
        for name in {pair.one for pair in pairs} | {pair.other for pair in pairs}:
            leads = [pair for pair in pairs if pair.one == name]
            leads += [pair.opposite for pair in pairs if pair.other == name]
            if all(pair.difference.value > 0 for pair in leads):
                found[name, rate] = _stars(max(pair.p_holm for pair in leads))
    return {key: mark for key, mark in found.items() if mark}


def _stars(p: float) -> str:
    return max((mark for level, mark in STARS.items() if p < level), default="", key=len)


def star_notes(summaries: Iterable[Summary], rate: str | None = None) -> list[str]:
    """Returns what stars in a table of some runs mean, or why there are none.

    rate: the only one in the table. Defaults to all.
    """
    levels = ", ".join(f"{mark} p < {level:g}" for level, mark in STARS.items())
    notes, without, few = list[str](), list[str](), list[str]()
    for summary in summaries:
        pairs = [pair for pair in summary.pairs if rate in (None, pair.rate)]
        if summary.pairs and not pairs:
            tested = ", ".join(summary.compared_rates)
            without.append(f"no stars: {rate} is not tested in this run, but {tested}")
        if not pairs:
            continue
        if any(rate in (None, of) for _, of in stars_of(summary)):
            reference = summary.reference
            what = "above each of the others" if reference is None else f"differs from {reference}"
            notes.append(f"{levels}: {what}, by Holm over one rate")
        few += out_of_reach(min(p.prompts for p in pairs), max(p.family for p in pairs))
        without.append("no stars: no test tells these apart")
    return list(dict.fromkeys(notes or few or without))
