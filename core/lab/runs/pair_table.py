"""The table of the differences between drafters, and what they can show."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.terminal import fits, plain
from outrider.lab.runs.table import signed
from outrider.lab.statistics.pairs import LEVEL, Pair
from outrider.lab.statistics.permutation_test import prompts_to_reach, smallest_p

Rows = dict[tuple[str, ...], dict[str, Pair]]
"""By the names in front of a row, its differences by rate."""


def pair_table(pairs: Sequence[Pair], *, narrow: bool = True) -> Table:
    """Returns the table of the differences between drafters, a row for each two of them.

    narrow: whether one name is put below the other where the terminal has no room for both.
    """
    rates = list(dict.fromkeys(pair.rate for pair in pairs))
    by_pair: Rows = {}
    for pair in pairs:
        by_pair.setdefault((pair.one, pair.other), {})[pair.rate] = pair
    result = _pair_table(["drafter", "less"], rates, by_pair, family(pairs))
    if not narrow or fits(result, whole=True):
        return result
    below: Rows = {(f"{one}\nless {other}",): cells for (one, other), cells in by_pair.items()}
    return _pair_table(["drafter\nless another"], rates, below, family(pairs))


def _pair_table(
    headings: Sequence[str], rates: Sequence[str], rows: Rows, notes: Sequence[str]
) -> Table:
    title, caption = "differences on the same prompts", "\n".join(notes)
    result = Table(title=title, caption=caption, box=SIMPLE_HEAD, collapse_padding=True)
    for heading in headings:
        result.add_column(heading, no_wrap=len(headings) > 1)
    for rate in rates:
        result.add_column(rate.replace("_", "\n"), justify="right", no_wrap=True)
    for names, by_rate in rows.items():
        cells = [
            f"{signed(pair.difference)}\n[dim]p {pair.p_holm:.2g}[/]{' *' * pair.significant}"
            if (pair := by_rate.get(rate)) is not None
            else "-"
            for rate in rates
        ]
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
