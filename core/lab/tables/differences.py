"""Tables of what differs: drafters pair by pair, and the settings of runs."""

from collections.abc import Mapping, Sequence

from outrider.lab.statistics.intervals import Interval
from outrider.lab.statistics.pairs import LEVEL, Pair
from outrider.lab.statistics.permutation_test import prompts_to_reach
from outrider.lab.tables.columns import Column, column_of
from outrider.lab.tables.table import Cell, Figure, Table, names_of


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
        (
            *names_of("drafter", "minus"),
            *map(column_of, rates),
        ),
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


def settings_table(differences: Mapping[str, Mapping[str, object]]) -> Table:
    """Returns the table of the settings that differ between runs, a column for each run.

    differences: by setting, its value by the run's label.
    """
    runs = dict.fromkeys(label for by_run in differences.values() for label in by_run)
    return Table(
        "settings that differ",
        tuple(Column(heading, kind="text") for heading in ("setting", *runs)),
        tuple((key, *map(str, by_run.values())) for key, by_run in differences.items()),
    )
