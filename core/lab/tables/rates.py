"""The table of the rates of runs, with stars for tests and what a reader has to know."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from outrider.lab.runs.conclusion import history
from outrider.lab.runs.row import Row, by_rate, ranked
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST, Interval
from outrider.lab.statistics.pairs import LEVEL
from outrider.lab.tables.columns import column_of, measured_rates
from outrider.lab.tables.differences import out_of_reach
from outrider.lab.tables.table import Cell, Figure, Table, names_of

MEMORY = "remembers the prompts before, in their order; each repeat begins with an empty memory"
"""The caveat for a drafter that remembers texts."""

ITSELF = "exact by construction: the target itself, whose weights fit into fewer bits"
"""The caveat for a drafter that predicts nothing."""

RANKS_FIRST = "* ranks first in speedup"

SPEED_FIRST = ("speedup", "tokens_per_second", "block_efficiency", "alpha_tested", "alpha")
"""The columns that come first on a page, in this order."""

STARS = {LEVEL: "*", 0.01: "**", 0.001: "***"}
"""By p-value, the mark of a difference with a smaller one."""

Stars = Mapping[tuple[str, str], str]
"""By drafter and rate, what stands behind the figure."""


def rates_table(
    rows: Mapping[str, Sequence[Row]],
    title: str,
    stars: Mapping[str, Stars] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Returns the table of one or more runs.

    In the table of one run, the drafter with the largest speedup is marked if that is above 1.

    rows: by the run's label, which is empty if there is only one run.
    stars: by the run's label; None if figures have none. With stars no drafter is marked as first,
        and no rate is left out of a narrow terminal. notes: first among those of the table.
    """
    all_rows = [row for run in rows.values() for row in run]
    rates = _without_repetition(measured_rates(all_rows))
    first = _first(all_rows) if len(rows) == 1 and stars is None else None
    columns = [column_of(rate) for rate in rates]
    if stars is not None:
        columns = [replace(column, spare=0) for column in columns]
    some_are_lossless = any(row.lossless for row in all_rows)

    def cells(label: str, row: Row) -> tuple[Cell, ...]:
        lossy = " (lossy)" * (not row.lossless and some_are_lossless)
        name = f"{row.drafter}{lossy}{'*' * (row is first)}"
        known = (stars or {}).get(label, {})
        figures = (rate_figure(row, rate, known) for rate in rates)
        return (*([label] if len(rows) > 1 else []), name, *figures)

    return Table(
        title,
        (*names_of("drafter", runs=len(rows) > 1), *columns),
        tuple(cells(label, row) for label, run in rows.items() for row in run),
        (*notes, *([RANKS_FIRST] if first is not None else []), *caveats(all_rows)),
        first=None if first is None else all_rows.index(first),
    )


def starred_rates_table(summaries: Mapping[str, Summary], title: str) -> Table:
    """Returns the rates of one or more runs, by label, with the stars of each run's tests."""
    rows = {label: summary.rows for label, summary in summaries.items()}
    stars = {label: stars_of(summary) for label, summary in summaries.items()}
    past = [line for summary in summaries.values() for line in history(summary.run)]
    return rates_table(rows, title, stars, [*star_notes(summaries.values()), *past])


def speed_table(rows: Sequence[Row]) -> Table:
    """Returns every rate, those of speed first, and the largest speedup on top."""
    ordered = by_rate(rows, "speedup")
    rates = measured_rates(rows)
    order = [rate for rate in SPEED_FIRST if rate in rates]
    order += [rate for rate in rates if rate not in SPEED_FIRST]
    best = ranked(ordered, "speedup")[:1]
    return Table(
        "The rates of each drafter",
        (*names_of("drafter"), *map(column_of, order)),
        tuple(
            (
                row.drafter + " (lossy)" * (not row.lossless),
                *(rate_figure(row, rate) for rate in order),
            )
            for row in ordered
        ),
        tuple(caveats(rows)),
        first=ordered.index(best[0]) if best else None,
    )


def rate_figure(
    row: Row, rate: str, stars: Stars | None = None, timed: Sequence[str] = ("speedup",)
) -> Figure | None:
    """Returns the figure of a rate, with its stars.

    timed: the rates that have a mark if the clock is doubtful; all have one of a drafter that was
        trained on the prompts.
    """
    mark = " !" * (row.trained_on > 0 or (rate in timed and bool(row.doubts)))
    stars_of_figure = (stars or {}).get((row.drafter, rate), "")
    return figure_of(row.rates.get(rate), rate, mark + stars_of_figure)


def figure_of(interval: Interval | None, rate: str, mark: str = "") -> Figure | None:
    """Returns a rate as a figure of a table; None if it was not measured."""
    if interval is None:
        return None
    signed = rate.endswith("_difference")
    return Figure(interval, column_of(rate).digits, mark, signed=signed)


def _without_repetition(rates: Sequence[str]) -> list[str]:
    """Returns the rates without those that say much the same as another one."""
    shown = [rate for rate in rates if rate != "mean_acceptance_length"]
    if "alpha_tested" in shown:  # measured, so their expectation is not needed
        shown = [rate for rate in shown if not rate.startswith("expected")]
        if "alpha" in shown:  # there are two rates of acceptance already
            shown = [rate for rate in shown if rate != "acceptance_rate"]
    return shown


def _first(rows: Sequence[Row]) -> Row | None:
    """Returns the row with the largest speedup; None if no speedup is above 1."""
    for row in ranked(rows, "speedup")[:1]:
        speedup = row.rates["speedup"]
        return row if speedup is not None and speedup.value > 1 else None
    return None


def caveats(rows: Sequence[Row]) -> list[str]:
    """Returns what a reader of these rows has to know: lossy rules, few prompts, doubts."""
    lines = []
    if lossy := list(dict.fromkeys(row.drafter for row in rows if not row.lossless)):
        whose = f" of {', '.join(lossy)}" if len(lossy) < len({row.drafter for row in rows}) else ""
        lines.append(f"LOSSY: the rule{whose} does not keep the target's distribution")
    if remembering := list(dict.fromkeys(row.drafter for row in rows if row.remembers)):
        lines.append(f"{', '.join(remembering)}: {MEMORY}")
    if themselves := list(dict.fromkeys(row.drafter for row in rows if row.target_itself)):
        lines.append(f"{', '.join(themselves)}: {ITSELF}")
    fewest = min((row.prompts for row in rows), default=FEWEST)
    if fewest < FEWEST:
        count = f"{fewest} prompt{'s' if fewest > 1 else ''}"
        lines.append(f"no intervals: {count}, and below {FEWEST} the spread is not known")
    doubted: dict[str, list[str]] = {}
    for row in rows:
        for reason in row.doubts:
            doubted.setdefault(reason, []).append(row.drafter)
    reasons: dict[tuple[str, str], list[str]] = {}
    for reason, names in doubted.items():
        what, _, detail = reason.partition(": ")
        reasons.setdefault((", ".join(dict.fromkeys(names)), what), []).append(detail)
    for (drafters, what), details in reasons.items():
        lines.append(f"! {drafters}: {': '.join(filter(None, (what, ', '.join(details))))}")
    return lines


def _stars(p: float) -> str:
    return max((mark for level, mark in STARS.items() if p < level), default="", key=len)


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


def star_notes(summaries: Iterable[Summary]) -> list[str]:
    """Returns what stars in a table of some runs mean, or why there are none."""
    levels = ", ".join(f"{mark} p < {level:g}" for level, mark in STARS.items())
    compared = [summary for summary in summaries if summary.pairs]
    notes, few = list[str](), list[str]()
    for summary in compared:
        if stars_of(summary):
            of = summary.reference
            what = "above each of the others" if of is None else f"differs from {of}"
            notes.append(f"{levels}: {what}, by Holm over one rate")
        fewest = min(pair.prompts for pair in summary.pairs)
        few += out_of_reach(fewest, max(pair.family for pair in summary.pairs))
    if notes or few:
        return list(dict.fromkeys(notes or few))
    return ["no stars: no test tells these apart"] * bool(compared)
