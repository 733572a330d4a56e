"""The tables of a comparison, for the terminal."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.lab.intervals import Interval
from outrider.lab.summary import Pair, Row

COLUMNS = {
    "alpha": ("alpha", 3),
    "coverage": ("cover-\nage", 2),
    "alpha_rule": ("alpha\nof rule", 3),
    "expected_alpha_tested": ("expect.\ntested", 3),
    "expected_block_efficiency": ("expect.\ntokens", 2),
    "alpha_tested": ("alpha\ntested", 3),
    "acceptance_rate": ("accept.\nrate", 3),
    "block_efficiency": ("tokens\na call", 2),
    "tokens_per_second": ("tokens\n/ s", 1),
    "speedup": ("speed-\nup", 2),
}
"""By rate, the heading and the digits behind the point."""

WITH_INTERVAL = ("alpha", "alpha_rule", "alpha_tested", "speedup")


def table(rows: Mapping[str, Sequence[Row]], title: str) -> Table:
    """Returns the table of one or more runs; under a lossy rule it says so.

    rows: by the run's label, which is empty where there is one run.
    """
    every = [row for run in rows.values() for row in run]
    lossy = any(not row.lossless for row in every)
    caption = "LOSSY: the rule does not keep the target's distribution" if lossy else None
    shown = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    if len(rows) > 1:
        shown.add_column("run")
    shown.add_column("drafter", overflow="fold")  # figures stay whole in a narrow terminal
    columns = columns_of(every)
    if "alpha_tested" in columns:  # what decoding was expected to count, it has counted
        columns = [name for name in columns if not name.startswith("expected")]
    for name in columns:
        shown.add_column(COLUMNS[name][0], justify="right", no_wrap=True)
    for label, run in rows.items():
        for row in run:
            cells = [cell(row.rates[name], name) for name in columns]
            shown.add_row(*([label] if len(rows) > 1 else []), row.drafter, *cells)
    return shown


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Returns the rates that there are, less the rule's alpha where it is just alpha."""
    return [
        name
        for name in COLUMNS
        if any(row.rates[name] is not None for row in rows)
        and (name != "alpha_rule" or any(_apart(row) for row in rows))
    ]


def pair_table(pairs: Sequence[Pair]) -> Table:
    """Returns the table of the drafters pair by pair, in the first rate that there is."""
    rate = pairs[0].rate
    title = f"{rate}: differences on the same prompts"
    shown = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True)
    for heading in ("drafter", "less"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("difference", "p (Holm)"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for pair in pairs:
        if pair.rate == rate:
            shown.add_row(pair.one, pair.other, spread(pair.difference, 3), f"{pair.p_holm:.4f}")
    return shown


def cell(found: Interval | None, name: str) -> str:
    """Returns a rate as the table shows it, its interval below it."""
    if found is None:
        return "-"
    value = f"{found.value:.{COLUMNS[name][1]}f}"
    if name not in WITH_INTERVAL or found.low is None:
        return value
    low, high = (f"{end:.2f}".removeprefix("0") for end in (found.low, found.high or 0.0))
    return f"{value}\n[dim]{low}-{high}[/]"


def spread(found: Interval, digits: int) -> str:
    """Returns a figure with its interval.

    >>> spread(Interval(0.5, 0.41, 0.62), 2)
    '0.50 [0.41, 0.62]'
    """
    if found.low is None:
        return f"{found.value:.{digits}f}"
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def _apart(row: Row) -> bool:
    one, other = row.rates["alpha"], row.rates["alpha_rule"]
    return one is not None and other is not None and abs(one.value - other.value) > 1e-6
