"""Tables of differences, of latency, and of acceptance by depth and place in the text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from outrider.lab.runs.labels import differences
from outrider.lab.runs.row import Details
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.pairs import LEVEL, Pair
from outrider.lab.statistics.permutation_test import prompts_to_reach
from outrider.lab.statistics.positions import Stretch
from outrider.lab.statistics.times import PERCENTILES
from outrider.lab.tables.table import Cell, Column, Figure, Table, column_of, names_of


def pairs_table(pairs: Sequence[Pair]) -> Table:
    """Returns the table of the differences between drafters, a row for each two of them."""
    rates = list(dict.fromkeys(pair.rate for pair in pairs))
    rates.sort(key=lambda rate: rate != "speedup")
    by_names: dict[tuple[str, str], dict[str, Cell]] = {}
    for pair in pairs:
        gap = Interval(pair.difference.value, None, None)  # its interval is not corrected as p is
        figure = Figure(gap, 2, signed=True, p=pair.p_holm)
        by_names.setdefault((pair.one, pair.other), {})[pair.rate] = figure
    return Table(
        "differences on the same prompts",
        (*names_of("drafter", "minus"), *map(column_of, rates)),
        tuple((*names, *map(cells.get, rates)) for names, cells in by_names.items()),
        tuple(family(pairs)),
    )


def family(pairs: Sequence[Pair]) -> list[str]:
    """Returns notes on the p-values: what they are corrected for, and how small they can be."""
    sizes = dict.fromkeys(pair.family for pair in pairs)
    tests = " or ".join(str(size) for size in sizes)
    lines = [f"* p < {LEVEL:g}, by Holm over the tests of one rate: {tests}"]
    return [*lines, *out_of_reach(min(pair.prompts for pair in pairs), max(sizes))]


def out_of_reach(prompts: int, tests: int) -> list[str]:
    """Returns a note if so few prompts can't show any of so many differences; else nothing."""
    enough = prompts_to_reach(LEVEL, tests)
    if prompts >= enough:
        return []
    few = f"{prompts} prompt{'s are' if prompts > 1 else ' is'} too few"
    what = f"any of {tests} differences" if tests > 1 else "a difference"
    return [f"{few} to show {what}: use {enough} or more"]


def settings_tables(runs: Mapping[str, Run]) -> list[Table]:
    """Returns the table of the settings that differ between runs, by label; none if none do.

    The identity, which holds the hashes of code and weights, counts as a setting.
    """
    facts = [
        run.facts["settings"] | {"identity": run.facts.get("identity", {})} for run in runs.values()
    ]
    rows = tuple((key, *map(str, values)) for key, values in differences(facts).items())
    columns = tuple(Column(heading, kind="text") for heading in ("setting", *runs))
    return [Table("settings that differ", columns, rows)] if rows else []


def plain_rows(summaries: Mapping[str, Summary]) -> list[dict[str, Any]]:
    """Returns the rows of all runs as plain values, each with its run's folder and label."""
    return [
        {"run": str(summary.run.folder), "label": label, **each.plain()}
        for label, summary in summaries.items()
        for each in summary.details
    ]


def detail_tables(summaries: Mapping[str, Summary]) -> list[Table]:
    """Returns the tables that the runs have data for.

    They are the times that a reader waits, in milliseconds, with their percentiles; tokens per
    call as counted, and what they are estimated to be without the cuts, since a text ends within a
    round; acceptance by position in the draft, where decoding tested a token there ("conditional"
    and "marginal" are the field's rates, of rounds as they are counted); and acceptance by place.
    """
    positions = "acceptance by position in the draft"
    note = (
        "accepted: of the n draft tokens tested there, with its 95% interval over prompts, without"
        " the rounds that a text's end cut; conditional and marginal: of all rounds, as counted"
    )
    tables = [
        _table("latency in milliseconds", ("time", *SPREAD), summaries, _latency),
        _table("tokens per call", ("counted", "if no text were cut"), summaries, _tokens),
        _table(positions, ("position", "accepted", *COUNTED), summaries, _depths, (note,)),
    ]
    stretches: dict[str, tuple[str, Callable[[Details], Sequence[Stretch]]]] = {
        "position in the text": ("tokens", lambda each: each.positions),
        "length of the context": ("tokens", lambda each: each.contexts),
    }
    if any(row.remembers for summary in summaries.values() for row in summary.rows):
        stretches["order of prompts"] = ("prompts", lambda each: each.order)
    for by, (unit, of) in stretches.items():
        rows = partial(_stretches, of)
        tables.append(_table(f"acceptance by {by}", (unit, "accepted", "n"), summaries, rows))
    return [table for table in tables if table.rows]


SPREAD = ("mean", *(f"p{percentile}" for percentile in PERCENTILES), "n")
"""The columns of a time."""

COUNTED = ("n", "conditional", "marginal")
"""The columns of a position in the draft, beside the acceptance."""

BESIDE = ("counted", "if no text were cut", "accepted")
"""The columns whose intervals stand beside their figures."""

Lines = Iterable[tuple[Cell, ...]]


def _latency(each: Details) -> Lines:
    for time, spread in each.latency.items():
        figures = (f"{1000 * spread[key]:.1f}" for key in SPREAD[:-1])
        yield time.replace("_", " "), *figures, str(spread["n"])


def _tokens(each: Details) -> Lines:
    rates = [each.row.rates[name] for name in ("block_efficiency", "block_efficiency_uncut")]
    if None not in rates:
        yield tuple(Figure(rate, 2) for rate in rates if rate)


def _depths(each: Details) -> Lines:
    depths, counted = each.row.depths, each.row.acceptance
    fields = ("tested_at", "tested_at_low", "tested_at_high", "tested_at_n")
    figures = zip(*(depths.get(field, ()) for field in fields), strict=True)
    for depth, (value, low, high, count) in enumerate(figures):
        if value is not None and counted is not None:
            rates = counted.conditional_accept_rates[depth], counted.marginal_accept_rates[depth]
            cells = ("" if rate is None else f"{rate:.3f}" for rate in rates)
            yield str(depth + 1), Figure(Interval(value, low, high)), f"{count:.0f}", *cells


def _stretches(of: Callable[[Details], Sequence[Stretch]], each: Details) -> Lines:
    for it in of(each):
        yield f"{it.first} to {it.last}", Figure(it.alpha_tested), str(it.tested)


def _table(
    title: str,
    headings: Sequence[str],
    summaries: Mapping[str, Summary],
    rows: Callable[[Details], Lines],
    notes: tuple[str, ...] = (),
) -> Table:
    """Returns a table with the names of run and drafter in front of the rows of each."""
    many = len(summaries) > 1
    columns = (
        Column(heading, kind="text" if heading == "time" else "figure", beside=heading in BESIDE)
        for heading in headings
    )
    lines = (
        (*([label] if many else []), each.row.name, *row)
        for label, summary in summaries.items()
        for each in summary.details
        for row in rows(each)
    )
    return Table(title, (*names_of("drafter", runs=many), *columns), tuple(lines), notes)
