"""The tables of a rate by task."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider.base.terminal import fits, plain
from outrider.lab.runs.row import Row
from outrider.lab.runs.table import caption_of
from outrider.lab.statistics.intervals import FEWEST, Interval

NAME_WIDTH = 20
"""Names of several words are broken where they are longer, to leave room for tasks."""


def task_tables(rows: Sequence[Row], rate: str = "speedup") -> list[Table]:
    """Returns the tables of a rate by task: more than one where the terminal has no room for it."""
    tasks = _tasks_of(rows)
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
    tasks = _tasks_of(rows) if tasks is None else tasks
    figures = [rates[rate] for row in rows for rates in row.tasks.values()]
    notes = []
    if any(figure is not None and figure.low is None for figure in figures):
        notes.append(f"without ±: fewer than {FEWEST} prompts, or all of them agree")
    title, caption = f"{rate.replace('_', ' ')} by task", caption_of(rows, *notes)
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


def _tasks_of(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(task for row in rows for task in row.tasks))


def _plus_minus(figure: Interval | None) -> str:
    if figure is None:
        return "-"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.2f}"
    reach = max(figure.value - figure.low, figure.high - figure.value)
    return f"{figure.value:.2f}\n[dim]±{reach:.2f}[/]"
