"""The tables of a comparison, for the terminal."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.lab.intervals import Interval
from outrider.lab.summary import Pair, Row
from outrider.terminal import plain

COLUMNS = {
    "alpha": ("alpha", 3),
    "coverage": ("cover-\nage", 2),
    "alpha_rule": ("alpha\nof rule", 3),
    "alpha_ceiling": ("alpha\nceiling", 3),
    "expected_alpha_tested": ("expect.\ntested", 3),
    "expected_block_efficiency": ("expect.\ntokens", 2),
    "alpha_tested": ("alpha\ntested", 3),
    "acceptance_rate": ("accept.\nrate", 3),
    "block_efficiency": ("tokens\na call", 2),
    "tokens_per_second": ("tokens\n/ s", 1),
    "speedup": ("speed-\nup", 2),
}
"""By rate, the heading and the number of decimals."""

BESIDE_ALPHA = ("alpha_rule", "alpha_ceiling")
"""The rates that are shown only where they differ from alpha."""

WITH_INTERVAL = ("alpha", "alpha_rule", "alpha_tested", "speedup")


def table(rows: Mapping[str, Sequence[Row]], title: str) -> Table:
    """Returns the table of one or more runs; it says so if a rule is lossy.

    rows: by the run's label, which is empty if there is only one run.
    """
    all_rows = [row for run in rows.values() for row in run]
    lossy = any(not row.lossless for row in all_rows)
    caption = "LOSSY: the rule does not keep the target's distribution" if lossy else None
    result = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    if len(rows) > 1:
        result.add_column("run")
    # Names are folded in a narrow terminal, so that figures stay whole.
    result.add_column("drafter", overflow="fold")
    columns = columns_of(all_rows)
    if "alpha_tested" in columns:  # the counts themselves, so no need for their expectation
        columns = [name for name in columns if not name.startswith("expected")]
    for name in columns:
        result.add_column(COLUMNS[name][0], justify="right", no_wrap=True)
    for label, run in rows.items():
        for row in run:
            cells = [cell(row.rates[name], name) for name in columns]
            names = [label, row.drafter] if len(rows) > 1 else [row.drafter]
            result.add_row(*map(plain, names), *cells)
    return result


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Returns the rates to show: those that have values.

    `alpha_rule` and `alpha_ceiling` are left out if they equal alpha everywhere.
    """
    return [
        name
        for name in COLUMNS
        if any(row.rates[name] is not None for row in rows)
        and (name not in BESIDE_ALPHA or any(_differs_from_alpha(row, name) for row in rows))
    ]


def pair_table(pairs: Sequence[Pair]) -> Table:
    """Returns the table of the differences between drafters, in the rate of the first pair."""
    rate = pairs[0].rate
    title = f"{rate}: differences on the same prompts"
    result = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True)
    for heading in ("drafter", "less"):
        result.add_column(heading, no_wrap=True)
    for heading in ("difference", "p (Holm)"):
        result.add_column(heading, justify="right", no_wrap=True)
    for pair in pairs:
        if pair.rate == rate:
            names = (pair.one, pair.other, with_interval(pair.difference, 3))
            result.add_row(*map(plain, names), f"{pair.p_holm:.4f}")
    return result


def cell(figure: Interval | None, name: str) -> str:
    """Returns a rate as it stands in the table, with the interval below the figure."""
    if figure is None:
        return "-"
    value = f"{figure.value:.{COLUMNS[name][1]}f}"
    if name not in WITH_INTERVAL or figure.low is None:
        return value
    low, high = (f"{end:.2f}".removeprefix("0") for end in (figure.low, figure.high or 0.0))
    return f"{value}\n[dim]{low}-{high}[/]"


def with_interval(figure: Interval, digits: int) -> str:
    """Returns a figure followed by its interval.

    >>> with_interval(Interval(0.5, 0.41, 0.62), 2)
    '0.50 [0.41, 0.62]'
    """
    if figure.low is None:
        return f"{figure.value:.{digits}f}"
    return f"{figure.value:.{digits}f} [{figure.low:.{digits}f}, {figure.high:.{digits}f}]"


def _differs_from_alpha(row: Row, name: str) -> bool:
    alpha, rate = row.rates["alpha"], row.rates[name]
    if rate is None:
        return False
    return alpha is None or abs(alpha.value - rate.value) > 1e-6
