"""Tables that only pages have: the first on each task, what was predicted, and the settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.lab.runs.facts import flatten
from outrider.lab.runs.labels import labelled
from outrider.lab.runs.row import TASK_RATES, Row, ranked
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import difference
from outrider.lab.statistics.prediction import FACTORS
from outrider.lab.tables.columns import Column
from outrider.lab.tables.layouts import tasks_table
from outrider.lab.tables.rates import figure_of
from outrider.lab.tables.table import Cell, Table, names_of

OVERALL = "all prompts"


def leaders_table(summaries: Mapping[str, Summary]) -> Table | None:
    """Returns the first drafter over all prompts, and on each task if there are several.

    None if nothing was timed. summaries: by the run's label.
    """
    tasks = list(dict.fromkeys(task for summary in summaries.values() for task in summary.tasks))
    rows = []
    for task in [None, *(tasks if len(tasks) > 1 else [])]:
        by_run = [_leader(label, summary, task) for label, summary in summaries.items()]
        candidates = [leader for leader in by_run if leader is not None]
        rows += sorted(candidates, key=lambda leader: -leader[0])[:1]
    columns = (
        *names_of("task", "ranks first"),
        Column("speedup"),
        *names_of("next"),
        Column("lead"),
    )
    note = (
        "A ranking by task: the intervals are of one difference each, and nothing here is tested."
    )
    title = "Which drafter ranks first by task"
    return Table(title, columns, tuple(row for _, row in rows), (note,)) if rows else None


def _leader(
    label: str, summary: Summary, task: str | None
) -> tuple[float, tuple[Cell, ...]] | None:
    """Returns the largest speedup of a run on a task, or over all prompts, and the table's row."""
    prompts = summary.prompts if task is None else summary.tasks.get(task, [])
    best = ranked(summary.rows, "speedup", task)
    if not best:
        return None
    first, *others = best
    speedup = (first.rates if task is None else first.tasks[task])["speedup"]
    assert speedup is not None, "a row without a speedup is ranked by it"
    lead = None
    if others:
        names = (first.drafter, others[0].drafter)
        lead = difference(*(summary.statistic(name, "speedup", prompts) for name in names))
    where = (
        f"{(task or OVERALL).replace('_', ' ')}, {len(prompts)} prompt{'s' * (len(prompts) != 1)}"
    )
    return speedup.value, (
        where,
        labelled(first.drafter, label),
        figure_of(speedup, "speedup"),
        others[0].drafter if others else None,
        figure_of(lead, "speedup"),
    )


def task_tables(rows: Sequence[Row]) -> list[Table]:
    """Returns each rate by task, speed first, and alpha by category; none of one task alone."""
    alpha = "alpha" if any(row.rates["alpha"] for row in rows) else "alpha_tested"
    order = sorted(TASK_RATES, key=lambda rate: rate != "speedup")
    shown = []
    for rate in (*order, alpha):
        measured = [row for row in rows if row.rates[rate]]
        table = tasks_table(measured, rate)
        if len(table.columns) > FIXED + 1 and measured:
            shown.append(table)
    return shown


FIXED = 3
"""The columns of a table by task that are no tasks: the drafter, tokens a call, and overall."""


def predictions_table(rows: Sequence[Row]) -> Table | None:
    """Returns the speedups that Theorem 3.8 predicts beside those measured; None if it has none."""
    columns = (
        Column("c", meaning="the time of a draft token over that of a target call"),
        Column(
            "scoring costs",
            meaning="the time of a call that scores a draft over that of one token",
        ),
        Column(
            "best gamma, in theory",
            meaning="the draft length with the largest speedup for this alpha and c",
        ),
        Column("predicted", meaning="the speedup by Theorem 3.8 for this alpha, c and gamma"),
        *(Column(f"times {factor}", meaning=meaning) for factor, meaning in FACTORS.items()),
        Column("measured"),
    )
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        if row.prediction is not None:
            prediction, speedup = row.prediction, row.rates["speedup"]
            lines.append(
                (
                    row.drafter,
                    f"{prediction.cost_ratio:.3f}",
                    f"{prediction.score_ratio:.2f}",
                    str(prediction.optimal_gamma),
                    f"{prediction.predicted_speedup:.2f}",
                    *(f"{prediction.factors[factor]:.2f}" for factor in FACTORS),
                    None if speedup is None else f"{speedup.value:.2f}",
                )
            )
    title = "Predicted and measured speedups"
    return Table(title, (*names_of("drafter"), *columns), tuple(lines)) if lines else None


def shared_settings_table(runs: Sequence[Run]) -> Table:
    """Returns the settings that all runs share, without empty ones, targets and lists."""
    settings: list[dict[str, Any]] = [dict(flatten(run.facts["settings"])) for run in runs]
    rows = tuple(
        (key, str(value))
        for key, value in settings[0].items()
        if all(flat.get(key) == value for flat in settings)
        and value not in (None, "", "???")
        and not key.endswith("_target_")
        and not isinstance(value, list | dict)
    )
    title = "settings" if len(runs) == 1 else "settings that all runs share"
    return Table(title, names_of("setting", "value"), rows)
