"""Details: the tables of latency, and of acceptance by depth, by position and by context length."""

from collections.abc import Callable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.terminal import plain
from outrider.extras.view.details import Details
from outrider.extras.view.latency import PERCENTILES
from outrider.extras.view.positions import Stretch
from outrider.lab.statistics.intervals import Interval

Rows = Mapping[str, Sequence[Details]]
"""The rows of each run with their details, by its label."""


def detail_tables(rows: Rows) -> list[Table]:
    """Returns the tables that the runs have data for."""
    tables = [
        latency_table(rows),
        depth_table(rows),
        stretch_table(rows, "acceptance by position in the text", lambda own: own.positions),
        stretch_table(rows, "acceptance by length of the context", lambda own: own.contexts),
    ]
    if any(own.row.remembers for run in rows.values() for own in run):
        title = "acceptance by order of prompts"
        tables.append(stretch_table(rows, title, lambda own: own.order, "prompts"))
    return [table for table in tables if table.row_count]


def latency_table(rows: Rows) -> Table:
    """Returns the times that a reader waits, in milliseconds, with their percentiles."""
    result = _table("latency in milliseconds", rows)
    result.add_column("time")
    for heading in ("mean", *(f"p{percentile}" for percentile in PERCENTILES), "n"):
        result.add_column(heading, justify="right")
    for names, own in _named(rows):
        for time, spread in own.latency.items():
            figures = [f"{1000 * figure:.1f}" for key, figure in spread.items() if key != "n"]
            result.add_row(*names, time.replace("_", " "), *figures, str(spread["n"]))
    return result


def depth_table(rows: Rows) -> Table:
    """Returns acceptance by position in the draft, where decoding tested a token there.

    "conditional" and "marginal" are the field's rates, of rounds as they are counted.
    """
    result = _table("acceptance by position in the draft", rows)
    result.caption = (
        "accepted: of the n draft tokens tested there, with its 95% interval over prompts, without"
        " the rounds that a text's end cut; conditional and marginal: of all rounds, as counted"
    )
    for heading in ("position", "accepted", "n", "conditional", "marginal"):
        result.add_column(heading, justify="right")
    for names, own in _named(rows):
        row, counted = own.row, own.row.acceptance
        fields = ("tested_at", "tested_at_low", "tested_at_high", "tested_at_n")
        figures = zip(*(row.depths.get(field, ()) for field in fields), strict=True)
        for depth, (value, low, high, count) in enumerate(figures, start=1):
            if value is not None and counted is not None:
                shown = _figure(Interval(value, low, high))
                rates = (counted.conditional[depth - 1], counted.marginal[depth - 1])
                cells = ("" if rate is None else f"{rate:.3f}" for rate in rates)
                result.add_row(*names, str(depth), shown, f"{count:.0f}", *cells)
    return result


def stretch_table(
    rows: Rows, title: str, stretches: Callable[[Details], Sequence[Stretch]], unit: str = "tokens"
) -> Table:
    """Returns acceptance by stretches of positions, or of prompts."""
    result = _table(title, rows)
    for heading in (unit, "accepted", "n"):
        result.add_column(heading, justify="right")
    for names, own in _named(rows):
        for stretch in stretches(own):
            place = f"{stretch.first} to {stretch.last}"
            result.add_row(*names, place, _figure(stretch.alpha_tested), str(stretch.tested))
    return result


def _table(title: str, rows: Rows) -> Table:
    """Returns an empty table with columns for the names of run and drafter."""
    result = Table(title=title, box=SIMPLE_HEAD, collapse_padding=True)
    if len(rows) > 1:
        result.add_column("run")
    result.add_column("drafter", overflow="fold")
    return result


def _named(rows: Rows) -> list[tuple[list[str], Details]]:
    """Returns each row with the names that stand in front of its figures."""
    return [
        ([plain(label).markup] * (len(rows) > 1) + [plain(own.row.drafter).markup], own)
        for label, run in rows.items()
        for own in run
    ]


def _figure(figure: Interval) -> str:
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} [dim]{figure.low:.2f}-{figure.high:.2f}[/]"
