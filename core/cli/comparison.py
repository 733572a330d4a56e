"""What `outrider compare` prints of a run, and the figure that a sweeper makes larger."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console

from outrider.base.errors import require
from outrider.base.terminal import plain, print_json, remarks, results
from outrider.cli.settings import Compare
from outrider.lab.runs.conclusion import conclusion_of, finding_of, unreliable
from outrider.lab.runs.frames import comparison
from outrider.lab.runs.labels import brief
from outrider.lab.runs.row import TASK_RATES, ranking
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST
from outrider.lab.tables.details import pairs_table
from outrider.lab.tables.layouts import tasks_table
from outrider.lab.tables.rates import rates_table
from outrider.lab.tables.table import RATES, measured_rates
from outrider.lab.tables.terminal import ranking_table, shown
from outrider.plugins.registry import installed

EXACT = 1e-6
"""An error of a card's sketch below this is not printed."""


def figure_names() -> list[str]:
    """Returns the figures of a comparison: rates, and scores."""
    scores = installed().of("score")
    return [*RATES, *scores, *(f"{name}_difference" for name in scores)]


def ratio_names() -> list[str]:
    """Returns the figures that are ratios of sums over prompts, which can be moved by a number."""
    others = ("expected_block_efficiency", "speedup_median")
    return [name for name in figure_names() if name not in others]


def print_comparison(summary: Summary, settings: Compare) -> None:
    """Prints the table, what it showed, and the further tables that the settings ask for."""
    print_json(comparison(summary))
    console = results()
    _print_first_screen(summary, settings, console)
    if settings.pairs and summary.pairs and summary.prompts[1:]:
        remarks(stderr=False).print(*shown(pairs_table(summary.pairs)))
    if settings.by_task and any(row.tasks for row in summary.rows):
        measured = measured_rates(summary.rows)
        for rate in (*TASK_RATES, *summary.scores):
            if rate in measured:
                console.print(*shown(tasks_table(summary.rows, rate)))


def _print_first_screen(summary: Summary, settings: Compare, console: Console) -> None:
    """Prints in rank order what ranks first, by how much, and whether that may be chance."""
    doubt, rows = unreliable({"": summary.rows}), {"": summary.rows}
    if doubt:
        console.print(plain(doubt, "bold red"))
    count, tests = len(summary.prompts), summary.over_plain
    title = f"{count} prompt{'s' * (count != 1)}, {brief(summary.run)}"
    sketch = summary.run.facts.get("sketch_error", {})
    if settings.columns is None and not summary.scores and not sketch:
        table = ranking_table(summary, title)
        together = f"for all {len(tests)} drafters together" if tests[1:] else ""
        legend = together if ranking(summary.rows) == "speedup" else "each for itself"
        lines = [f"Lines are 95% intervals{', ' * bool(legend)}{legend}."]
    else:
        marks = {
            (name, rate): f" ±{error:.1g}"
            for name, errors in sketch.items()
            for rate, error in errors.items()
            if error >= EXACT
        }
        off = f"±: how far a figure may be off by what the card left out, from {EXACT:g} on"
        table = rates_table(
            rows,
            title,
            over_plain=tests,
            columns=settings.columns if isinstance(settings.columns, list) else None,
            stars={"": marks} if sketch else None,
            notes=[off] * bool(marks),
        )
        lines = []
    console.print(*shown(replace(table, notes=())))
    for line in conclusion_of(summary):
        if line != doubt:
            console.print(plain(line))
    if (found := finding_of(summary)) is not None and found.enough:
        console.print(plain(_more_prompts(summary, found.enough)), soft_wrap=True)
    notes = [note for note in table.notes if note != doubt]
    for line in (*notes, *(lines if summary.prompts[FEWEST - 1 :] else [])):
        console.print(plain(line, "dim"))


def _more_prompts(summary: Summary, more: int) -> str:
    """Returns how to measure so many prompts, as far as the settings tell."""
    data = summary.run.facts["settings"].get("data")
    own = ("data.limit=", "hydra.run.dir=", "resume=")
    start = (summary.run.facts.get("starts") or [{}])[-1]
    words = [it for it in shlex.split(start.get("command", "")) if not it.startswith(own)]
    has_limit = isinstance(data, Mapping) and data.get("limit") and words
    how = f": {shlex.join([*words, f'data.limit={more}'])}" if has_limit else ""
    return f"{more} prompts would say more{how}"


def best(summary: Summary, rate: str) -> float:
    """Returns a rate of the drafter that is best at it; plain decoding counts only if it is alone.

    Raises `ConfigError` if no drafter has this rate.
    """
    drafted = [row for row in summary.rows if not row.control]
    rates = [row.rates.get(rate) for row in drafted or summary.rows]
    known = [interval.value for interval in rates if interval is not None]
    require(bool(known), "objective", rate, "a rate that this run measures")
    return max(known)
