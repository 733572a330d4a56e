"""The tables of a comparison, for the terminal."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from outrider.base.terminal import fits, plain
from outrider.lab.runs.row import Row, ranked
from outrider.lab.statistics.intervals import FEWEST, Interval
from outrider.lab.statistics.pairs import LEVEL, Pair
from outrider.lab.statistics.permutation_test import prompts_to_reach, smallest_p

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

NAME_WIDTH = 20
"""Names of several words are broken where they are longer, to leave room for tasks."""

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
    names = [row.drafter for run in rows.values() for row in run]
    if any(" " in name for name in names) and not fits(result, whole=True):
        # What a drafter has for itself makes its name long, but no word of it.
        column = next(column for column in result.columns if column.header == "drafter")
        column.no_wrap, column.width = False, max(map(len, " ".join(names).split()))
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
    caption = _caption(all_rows, *notes, *([FIRST] if first is not None else []))
    result = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    if len(rows) > 1:
        result.add_column("run", overflow="fold")
    result.add_column("drafter", no_wrap=True)
    for name in columns:
        result.add_column(_heading(name), justify="right", no_wrap=True)
    for label, run in rows.items():
        known = (stars or {}).get(label, {})
        for row in run:
            marks = {"speedup": " !"} if row.doubts else {}
            cells = [
                cell(row.rates.get(x), x, mark=marks.get(x, "") + known.get((row.drafter, x), ""))
                for x in columns
            ]
            is_first = row is first
            names = [label] if len(rows) > 1 else []
            mark = " (lossy)" * (not row.lossless and some_are_lossless)
            names.append(f"{row.drafter}{mark}{' *' * is_first}")
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


def _caption(rows: Sequence[Row], *notes: str) -> Text | None:
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


def pair_table(pairs: Sequence[Pair], *, narrow: bool = True) -> Table:
    """Returns the table of the differences between drafters, a row for each two of them.

    narrow: whether one name is put below the other where the terminal has no room for both.
    """
    rates = list(dict.fromkeys(pair.rate for pair in pairs))
    by_pair: dict[tuple[str, str], dict[str, Pair]] = {}
    for pair in pairs:
        by_pair.setdefault((pair.one, pair.other), {})[pair.rate] = pair
    result = _pair_table(["drafter", "less"], rates, by_pair, family(pairs))
    if not narrow or fits(result, whole=True):
        return result
    below = {(f"{one}\nless {other}",): cells for (one, other), cells in by_pair.items()}
    return _pair_table(["drafter\nless another"], rates, below, family(pairs))


def _pair_table(
    headings: Sequence[str],
    rates: Sequence[str],
    rows: Mapping[tuple[str, ...], Mapping[str, Pair]],
    notes: Sequence[str],
) -> Table:
    title, caption = "differences on the same prompts", "\n".join(notes)
    result = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    for heading in headings:
        result.add_column(heading, no_wrap=len(headings) > 1)
    for rate in rates:
        result.add_column(rate.replace("_", "\n"), justify="right", no_wrap=True)
    for names, by_rate in rows.items():
        cells = [_difference(by_rate[rate]) if rate in by_rate else "-" for rate in rates]
        result.add_row(*map(plain, names), *cells)
    return result


def family(pairs: Sequence[Pair]) -> list[str]:
    """Returns notes on the p-values: what they are corrected for, and how small they can be."""
    sizes = dict.fromkeys(pair.family for pair in pairs)
    tests = " or ".join(str(size) for size in sizes)
    lines = [f"* p below {LEVEL:g} by Holm's correction for the tests of one rate: {tests}"]
    return [*lines, *out_of_reach(min(pair.prompts for pair in pairs), max(sizes))]


def out_of_reach(prompts: int, tests: int) -> list[str]:
    """Returns a note if so few prompts can't show any of so many differences; else nothing."""
    enough = prompts_to_reach(LEVEL, tests)
    if prompts >= enough:
        return []
    least = min(1.0, tests * smallest_p(prompts))
    few = f"{prompts} prompt{'s' * (prompts > 1)}"
    what = f"any of {tests} differences" if tests > 1 else "a difference"
    return [f"{few} can't show {what}: no p by Holm is below {least:.2g}; {enough} prompts could"]


def _difference(pair: Pair) -> str:
    """Returns a difference as a cell of the table, with its interval and p below."""
    mark = " *" * pair.significant
    return "\n".join([_signed(pair.difference), f"[dim]p {pair.p_holm:.2g}[/]{mark}"])


def _signed(gap: Interval) -> str:
    """Returns a difference with its sign, and its interval below."""
    interval = "" if gap.low is None else f"\n[dim]{gap.low:+.3f} {gap.high:+.3f}[/]"
    return f"{gap.value:+.3f}{interval}"


def task_tables(rows: Sequence[Row], rate: str = "speedup") -> list[Table]:
    """Returns the tables of a rate by task: more than one where the terminal has no room for it."""
    tasks = list(dict.fromkeys(task for row in rows for task in row.tasks))
    tables: list[Table] = []
    for count in range(len(tasks), 0, -1):
        parts = (tasks[first : first + count] for first in range(0, len(tasks), count))
        tables = [task_table(rows, rate, part) for part in parts]
        if all(fits(each, whole=True) for each in tables):
            break
    return tables


def task_table(
    rows: Sequence[Row], rate: str = "speedup", tasks: Sequence[str] | None = None
) -> Table:
    """Returns the table of a rate by task, in the layout of Spec-Bench's leaderboard.

    The last two columns are over all prompts: the tokens a call, which Spec-Bench calls mean
    accepted tokens, and the rate. Below each figure is how far its interval reaches to either side.

    tasks: those to show. Defaults to all.
    """
    if tasks is None:
        tasks = list(dict.fromkeys(task for row in rows for task in row.tasks))
    figures = [rates[rate] for row in rows for rates in row.tasks.values()]
    notes = []
    if any(figure is not None and figure.low is None for figure in figures):
        notes.append(f"without ±: fewer than {FEWEST} prompts, or all of them agree")
    title, caption = f"{rate.replace('_', ' ')} by task", _caption(rows, *notes)
    result = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    words = " ".join(row.drafter for row in rows).split()
    result.add_column("drafter", max_width=max(NAME_WIDTH, *map(len, words)))
    for heading in (*(task.replace("_", "\n") for task in tasks), "tokens\na call", "overall"):
        result.add_column(plain(heading), justify="right", no_wrap=True)
    for row in rows:
        shown = (row.tasks.get(task, {}).get(rate) for task in tasks)
        overall = row.rates["block_efficiency"], row.rates[rate]
        result.add_row(plain(row.drafter), *map(_plus_minus, (*shown, *overall)))
    return result


def _plus_minus(figure: Interval | None) -> str:
    if figure is None:
        return "-"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.2f}"
    reach = max(figure.value - figure.low, figure.high - figure.value)
    return f"{figure.value:.2f}\n[dim]±{reach:.2f}[/]"


def cell(figure: Interval | None, name: str, *, mark: str = "") -> str:
    """Returns a rate as a cell of the table, with the interval below the figure.

    mark: stands behind the figure; the caption explains it.
    """
    if figure is None:
        return "-"
    if name.endswith("_difference"):
        return _signed(figure)
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
