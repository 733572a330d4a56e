"""Tables that only pages have: the rates by task, what was predicted, and the settings."""

from collections.abc import Sequence
from typing import Any

from outrider.lab.runs.labels import flatten
from outrider.lab.runs.row import TASK_RATES, Row
from outrider.lab.runs.run import Run
from outrider.lab.statistics.prediction import FACTORS
from outrider.lab.tables.layouts import tasks_table
from outrider.lab.tables.table import Cell, Column, Table, names_of


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
"""The columns of a table by task that are no tasks: the drafter, tokens per call, and overall."""


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
    lines: list[tuple[Cell, ...]] = [
        (
            row.drafter,
            f"{it.cost_ratio:.3f}",
            f"{it.score_ratio:.2f}",
            str(it.optimal_gamma),
            f"{it.predicted_speedup:.2f}",
            *(f"{it.factors[factor]:.2f}" for factor in FACTORS),
            None if row.rates["speedup"] is None else f"{row.rates['speedup'].value:.2f}",
        )
        for row in rows
        if (it := row.prediction) is not None
    ]
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
