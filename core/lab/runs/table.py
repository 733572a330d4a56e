"""The tables of a comparison, for the terminal."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from outrider.base.terminal import fits, plain
from outrider.lab.runs.row import Row, ranked
from outrider.lab.statistics.intervals import FEWEST, Interval

COLUMNS = {
    "alpha": ("alpha", 3),
    "coverage": ("cover-\nage", 2),
    "alpha_rule": ("alpha\nof rule", 3),
    "overshoot": ("over-\nshoot", 3),
    "alpha_ceiling": ("alpha\nceiling", 3),
    "expected_alpha_tested": ("expect.\ntested", 3),
    "expected_block_efficiency": ("expect.\ntokens", 2),
    "alpha_tested": ("alpha\ntested", 3),
    "acceptance_rate": ("accept.\nrate", 3),
    "block_efficiency": ("tokens\na call", 2),
    "mean_acceptance_length": ("tokens\nas cut", 2),
    "tokens_per_second": ("tokens\n/ s", 1),
    "speedup": ("speed-\nup", 2),
    "speedup_median": ("median\nspeedup", 2),
}
"""By rate, the heading and the number of decimals; those of scores are not among them."""

SCORE_DIGITS = 3

BESIDE_ALPHA = ("alpha_rule", "alpha_ceiling")
"""The rates that are shown only where they differ from alpha."""

MEMORY = "remembers the prompts before, in their order; each repeat begins with an empty memory"
"""The caveat for a drafter that remembers texts."""

ITSELF = "exact by construction: the target itself, whose weights fit into fewer bits"
"""The caveat for a drafter that predicts nothing."""

SPARE = (
    *("speedup_median", "coverage", "acceptance_rate", "alpha_ceiling"),
    *("tokens_per_second", "overshoot", "alpha_rule"),
)
"""The rates that a narrow terminal leaves out, the first first, so that names stay whole."""

FIRST = "* ranks first in speedup"

WITH_INTERVAL = ("alpha", "alpha_rule", "alpha_tested", "speedup", "speedup_median")
"""The rates that are shown with their intervals, besides scores."""


def table(
    rows: Mapping[str, Sequence[Row]],
    title: str,
    stars: Mapping[str, Mapping[tuple[str, str], str]] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Returns the table of one or more runs; it says so if a rule is lossy.

    In the table of one run, the drafter with the largest speedup is marked if that is above 1. In a
    narrow terminal the rates in `SPARE` are left out one by one, which a note says.

    rows: by the run's label, which is empty if there is only one run.
    stars: by the run's label, what stands behind the figure of a drafter in a rate. Then no
        drafter is marked as first, and no rate is left out. notes: first in the caption.
    """
    columns = _columns_shown([row for run in rows.values() for row in run])
    result, left_out = _with_columns(columns, rows, title, stars, notes), list[str]()
    for name in (name for name in SPARE if name in columns):
        if stars is not None or fits(result):
            break
        columns.remove(name)
        left_out.append(name.replace("_", " "))
        line = f"no room for {', '.join(left_out)}"
        result = _with_columns(columns, rows, title, stars, [*notes, line])
    column = next(column for column in result.columns if column.header == "drafter")
    words = " ".join(map(str, column.cells)).split()
    if len(words) > result.row_count and not fits(result, whole=True):
        # What a drafter has for itself makes its name long, but no word of it. Rich counts one
        # column of padding where padding collapses, but the first column has two.
        column.no_wrap, column.width = False, max(map(len, words)) + 1
    return result


def _columns_shown(rows: Sequence[Row]) -> list[str]:
    """Returns the rates that the terminal shows if it is wide enough."""
    columns = [name for name in columns_of(rows) if name != "mean_acceptance_length"]
    if "alpha_tested" in columns:  # measured, so their expectation is not needed
        columns = [name for name in columns if not name.startswith("expected")]
        if "alpha" in columns:  # there are two rates of acceptance already
            columns = [name for name in columns if name != "acceptance_rate"]
    return columns


def _with_columns(
    columns: Sequence[str],
    rows: Mapping[str, Sequence[Row]],
    title: str,
    stars: Mapping[str, Mapping[tuple[str, str], str]] | None,
    notes: Sequence[str],
) -> Table:
    all_rows = [row for run in rows.values() for row in run]
    some_are_lossless = any(row.lossless for row in all_rows)
    first = _first(all_rows) if len(rows) == 1 and stars is None else None
    caption = caption_of(all_rows, *notes, *([FIRST] if first is not None else []))
    result = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    if len(rows) > 1:
        result.add_column("run", overflow="fold")
    result.add_column("drafter", no_wrap=True)
    for name in columns:
        result.add_column(_heading(name), justify="right", no_wrap=True)
    for label, run in rows.items():
        result.add_section()
        known = (stars or {}).get(label, {})
        for row in run:
            marks = {"speedup": " !"} if row.doubts else {}
            cells = [
                cell(row.rates.get(x), x, mark=marks.get(x, "") + known.get((row.drafter, x), ""))
                for x in columns
            ]
            is_first = row is first
            names = [label * (row is run[0])] if len(rows) > 1 else []
            mark = " (lossy)" * (not row.lossless and some_are_lossless)
            names.append(f"{row.drafter}{mark}{'*' * is_first}")
            result.add_row(*map(plain, names), *cells, style="bold green" if is_first else None)
    return result


def _first(rows: Sequence[Row]) -> Row | None:
    """Returns the row with the largest speedup; None if no speedup is above 1."""
    for row in ranked(rows, "speedup")[:1]:
        speedup = row.rates["speedup"]
        return row if speedup is not None and speedup.value > 1 else None
    return None


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Returns the rates to show: those that have values.

    `alpha_rule` and `alpha_ceiling` are left out if they equal alpha everywhere.
    """
    scores = dict.fromkeys(
        name for row in rows for score in row.scores for name in (score, f"{score}_difference")
    )
    return [
        name
        for name in (*COLUMNS, *scores)
        if any(row.rates.get(name) is not None for row in rows)
        and (name not in BESIDE_ALPHA or any(_differs_from_alpha(row, name) for row in rows))
    ]


def caption_of(rows: Sequence[Row], *notes: str) -> Text | None:
    """Returns the caption of a table of some rows, the notes first; None if there is nothing."""
    lines = [*notes, *caveats(rows)]
    return plain("\n".join(lines)) if lines else None


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


def signed(gap: Interval) -> str:
    """Returns a difference with its sign, and its interval below."""
    interval = "" if gap.low is None else f"\n[dim]{gap.low:+.3f} {gap.high:+.3f}[/]"
    return f"{gap.value:+.3f}{interval}"


def cell(figure: Interval | None, name: str, *, mark: str = "") -> str:
    """Returns a rate as a cell of the table, with the interval below the figure.

    mark: stands behind the figure; the caption explains it.
    """
    if figure is None:
        return "-"
    if name.endswith("_difference"):
        return signed(figure)
    value = f"{figure.value:.{digits_of(name)}f}{mark}"
    if (name in COLUMNS and name not in WITH_INTERVAL) or figure.low is None:
        return value
    low, high = (f"{end:.2f}".removeprefix("0") for end in (figure.low, figure.high or 0.0))
    return f"{value}\n[dim]{low}-{high}[/]"


def digits_of(name: str) -> int:
    """Returns the number of decimals that a rate or a score is shown with."""
    return COLUMNS[name][1] if name in COLUMNS else SCORE_DIGITS


def _heading(name: str) -> str:
    if name in COLUMNS:
        return COLUMNS[name][0]
    return "less\nplain's" if name.endswith("_difference") else name


def _differs_from_alpha(row: Row, name: str) -> bool:
    alpha, rate = row.rates["alpha"], row.rates[name]
    return rate is not None and (alpha is None or abs(alpha.value - rate.value) > 1e-6)
