"""Which drafter is first on which task, by how much, and every rate by task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from outrider.extras.view.page.rates import Line
from outrider.extras.view.plotting import named
from outrider.lab.runs.row import Row, ranked
from outrider.lab.runs.summary import Summary
from outrider.lab.runs.table import digits_of
from outrider.lab.statistics.intervals import Interval, difference

OVERALL = "all prompts"

TITLES = {  # TASK_RATES, speed first
    "speedup": "Speedup over plain decoding",
    "block_efficiency": "Tokens per call of the target",
    "tokens_per_second": "Tokens per second",
}


@final
@dataclass(frozen=True, slots=True)
class Leader:
    """The drafter with the largest speedup on a task. This is a ranking, and no test.

    prompts: how many the task has.
    next: the second in the same run; empty if there is none.
    lead: how much larger the speedup of the first is than that of the next, on the same prompts.
    """

    task: str
    prompts: int
    first: str
    speedup: Interval
    next: str
    lead: Interval | None


@final
@dataclass(frozen=True, slots=True)
class TaskTable:
    """A rate by task. rows: a line of the page's table with its figures, in the order of tasks."""

    rate: str
    title: str
    digits: int
    tasks: list[str]
    rows: list[tuple[Line, list[Interval | None]]]


def named_rows(summaries: Mapping[str, Summary]) -> list[Row]:
    """Returns the rows of all runs, each named with its run. summaries: by the run's label."""
    return [
        replace(row, drafter=named(row.drafter, label))
        for label, summary in summaries.items()
        for row in summary.rows
    ]


def leaders(summaries: Mapping[str, Summary]) -> list[Leader]:
    """Returns the first drafter over all prompts, and then on each task if there are several.

    summaries: by the run's label.
    """
    tasks = list(dict.fromkeys(task for summary in summaries.values() for task in summary.tasks))
    leading = []
    for task in [OVERALL, *(tasks if len(tasks) > 1 else [])]:
        by_run = [_leader(label, summary, task) for label, summary in summaries.items()]
        candidates = [leader for leader in by_run if leader is not None]
        leading += sorted(candidates, key=lambda leader: -leader.speedup.value)[:1]
    return leading


def _leader(label: str, summary: Summary, task: str) -> Leader | None:
    """Returns the first drafter of a run on a task; None if nothing was timed."""
    prompts = summary.prompts if task == OVERALL else summary.tasks.get(task, [])
    best = ranked(summary.rows, "speedup", None if task == OVERALL else task)
    if not best:
        return None
    first, *others = best
    speedup = (first.rates if task == OVERALL else first.tasks[task])["speedup"]
    assert speedup is not None, "a row without a speedup is ranked by it"
    second, lead = "", None
    if others:
        second = others[0].drafter
        statistics = (
            summary.statistic(name, "speedup", prompts) for name in (first.drafter, second)
        )
        lead = difference(*statistics)
    return Leader(task, len(prompts), named(first.drafter, label), speedup, second, lead)


def task_tables(lines: Sequence[Line]) -> list[TaskTable]:
    """Returns each rate by task, speed first; rates with only one task are left out.

    The last is alpha by category, or alpha tested where there is no alpha.
    """
    tables = [
        _task_table(
            rate,
            title,
            [
                (line, {task: rates[rate] for task, rates in line.row.tasks.items()})
                for line in lines
            ],
        )
        for rate, title in TITLES.items()
    ]
    rate = "alpha" if any(line.row.rates["alpha"] for line in lines) else "alpha_tested"
    by_category = [(line, line.row.categories) for line in lines]
    tables.append(_task_table(rate, rate.replace("_", " ").capitalize(), by_category))
    return [table for table in tables if len(table.tasks) > 1 and table.rows]


def _task_table(
    rate: str, title: str, figures: Sequence[tuple[Line, Mapping[str, Interval | None]]]
) -> TaskTable:
    tasks = list(dict.fromkeys(task for _, by_task in figures for task in by_task))
    rows = [
        (line, [by_task.get(task) for task in tasks])
        for line, by_task in figures
        if any(by_task.values())
    ]
    return TaskTable(rate, title, digits_of(rate), tasks, rows)
