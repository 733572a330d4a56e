"""Tables of runs in the layouts of papers, and of a rate by run or by task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from outrider.lab.runs.labels import differing, labelled, labels, readable
from outrider.lab.runs.row import Row, ceilings, drafted, in_order
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.intervals import FEWEST, Interval
from outrider.lab.tables.rates import (
    caveats,
    figure_of,
    rate_figure,
    some_times_are_sure,
    star_notes,
    stars_of,
)
from outrider.lab.tables.table import RATES, Cell, Column, Figure, Table, column_of, names_of

BY_RUN = ("alpha", "alpha_tested", "block_efficiency", "tokens_per_second", "speedup")
"""The rates that can be shown with a column for each run."""

BY_CATEGORY = ("alpha", "alpha_tested")
"""The rates that rows have by category and not by task."""


def tasks_table(rows: Sequence[Row], rate: str = "speedup") -> Table:
    """Returns the table of a rate by task, in the layout of Spec-Bench's leaderboard.

    The last two columns are over all prompts: the tokens per call, which Spec-Bench calls mean
    accepted tokens, and the rate.
    """
    rows = in_order(rows, rate)
    by_task: list[Mapping[str, Interval | None]] = [
        row.categories
        if rate in BY_CATEGORY
        else {task: rates[rate] for task, rates in row.tasks.items()}
        for row in rows
    ]
    tasks = list(dict.fromkeys(task for figures in by_task for task in figures))
    notes = []
    if any(each is not None and each.low is None for some in by_task for each in some.values()):
        notes.append(f"without ±: fewer than {FEWEST} prompts, or all of them agree")

    def figure(interval: Interval | None) -> Figure | None:
        return None if interval is None else Figure(interval, digits=2, reach=True)

    cells = (
        (
            row.name,
            *(figure(figures.get(task)) for task in tasks),
            figure(row.rates["block_efficiency"]),
            figure(row.rates[rate]),
        )
        for row, figures in zip(rows, by_task, strict=True)
    )
    headings = (*(task.replace("_", "\n") for task in tasks), "tokens\nper call", "overall")
    return Table(
        f"{column_of(rate).title} by task",
        (*names_of("drafter"), *map(Column, headings)),
        tuple(cells),
        (*notes, *caveats({"": rows})),
        ceilings=tuple(rows.index(row) for row in ceilings(rows)),
    )


def spec_bench(summaries: Sequence[Summary]) -> Table:
    """Returns Spec-Bench's leaderboard: the speedup by task, and overall with tokens per call."""
    names = labels([summary.run for summary in summaries])
    rows = labelled_rows(dict(zip(names, summaries, strict=True)))
    return tasks_table([row for row in rows if row.rates["speedup"] is not None])


def labelled_rows(summaries: Mapping[str, Summary]) -> list[Row]:
    """Returns the rows of all runs, each named with its run. summaries: by the run's label."""
    return [
        replace(row, drafter=labelled(row.drafter, label))
        for label, summary in summaries.items()
        for row in summary.rows
    ]


def pivot(summaries: Sequence[Summary], rate: str, setting: str) -> Table:
    """Returns a rate by drafter, with a column for each value of a setting.

    If the runs differ in more settings, there is a row for each drafter under each of them.
    """
    values = [readable(summary.run.facts["settings"]).get(setting) for summary in summaries]
    others = _other_settings(summaries, setting)
    rows: dict[str, dict[Any, Cell]] = {}
    for summary, other, value in zip(summaries, others, values, strict=True):
        for row in in_order(summary.rows, rate):
            figures = rows.setdefault(labelled(row.drafter, other), {})
            figures[value] = figure_of(row.rates.get(rate), rate)
    columns = list(dict.fromkeys(values))
    headings = (f"{setting.rpartition('.')[2]}\n{value}" for value in columns)
    return _by_name(rate, headings, rows, columns)


def by_run(summaries: Sequence[Summary], rate: str) -> Table:
    """Returns a rate by drafter, with a column for each run and the stars of each run's tests."""
    mark_doubts = some_times_are_sure(row for summary in summaries for row in summary.rows)
    rows: dict[str, dict[Any, Cell]] = {}
    for number, summary in enumerate(summaries):
        stars = stars_of(summary)
        for row in in_order(summary.rows, rate):
            figure = rate_figure(row, rate, stars, mark_doubts=mark_doubts)
            rows.setdefault(row.drafter, {})[number] = figure
    names = labels([summary.run for summary in summaries])
    headings = (
        name.replace("temperature ", "T = ").replace(", ", "\n") or column_of(rate).title
        for name in names
    )
    runs = {name: summary.rows for name, summary in zip(names, summaries, strict=True)}
    is_timed = RATES[rate].source == "clock"
    notes = (*star_notes(summaries, rate), *(caveats(runs) if is_timed else []))
    return _by_name(rate, headings, rows, range(len(names)), notes)


def _by_name(
    rate: str,
    headings: Iterable[str],
    rows: Mapping[str, Mapping[Any, Cell]],
    keys: Sequence[Any],
    notes: tuple[str, ...] = (),
) -> Table:
    """Returns the table of a rate with a row for each name and a column for each key."""
    shown = column_of(rate)
    columns = (Column(heading, interval=shown.interval) for heading in headings)
    return Table(
        shown.title,
        (*names_of("drafter"), *columns),
        tuple((name, *map(figures.get, keys)) for name, figures in rows.items()),
        notes,
    )


def chen_table1(summaries: Sequence[Summary]) -> Table:
    """Returns Chen et al.'s (2302.01318) Table 1, with a row for each drafter on each task.

    ArS, autoregressive sampling, is the drafter `none`. SpS is speculative sampling.
    """
    rows: list[tuple[Cell, ...]] = []
    for summary, sampling in zip(summaries, samplings(summaries), strict=True):
        for task in summary.tasks:
            for row in (row for row in summary.rows if task in row.tasks):  # that was decoded
                method = f"SpS ({sampling}), {row.drafter}" if drafted(row) else f"ArS ({sampling})"
                rows.append((method, task, *_results(row, task)))
    return Table(
        "",
        (
            Column("sampling method", kind="text"),
            Column("benchmark", kind="text"),
            *map(Column, ("result", "mean token time", "speedup")),
        ),
        tuple(rows),
    )


def _results(row: Row, task: str) -> tuple[Cell, ...]:
    """Returns the scores, the milliseconds of a token and the speedup on a task."""
    rates = row.tasks[task]
    scores = [
        " ".join((name, *figure.lines(brackets=True)))
        for name in row.scores
        if (figure := figure_of(rates[name], name)) is not None
    ]
    speed = rates["tokens_per_second"]
    time = None if speed is None else f"{1000 / speed.value:.2f} ms/token"
    return "; ".join(scores) or None, time, figure_of(rates["speedup"], "speedup")


def samplings(summaries: Sequence[Summary]) -> list[str]:
    """Returns the sampling of each run in words, and what else differs except gamma."""
    others = _other_settings(summaries, "gamma", "sampling.")
    return [labelled(_sampling(it.run), own) for it, own in zip(summaries, others, strict=True)]


def _sampling(run: Run) -> str:
    settings = readable(run.facts["settings"])
    temperature = settings["sampling.temperature"]
    top_p = settings.get("sampling.top_p", 1)
    if temperature == 0:
        return "greedy"
    kind = f"nucleus {top_p:g}" if top_p < 1 else "standard"
    return kind if temperature == 1 else f"{kind}, temperature {temperature:g}"


def _other_settings(summaries: Sequence[Summary], *settings: str) -> list[str]:
    """Returns what differs between the runs besides some settings, in words."""
    found = [readable(summary.run.facts["settings"]) for summary in summaries]
    return differing(
        [{k: v for k, v in each.items() if not k.startswith(settings)} for each in found]
    )


LAYOUTS: Mapping[str, Callable[[Sequence[Summary]], Table]] = {
    "leviathan_table3": partial(pivot, rate="alpha", setting="sampling.temperature"),
    "leviathan_table5": partial(pivot, rate="alpha_rule", setting="verifier.lenience"),
    "chen_table1": chen_table1,
    "spec_bench": spec_bench,
    **{rate: partial(by_run, rate=rate) for rate in BY_RUN},
}
"""By name, the papers' tables (Leviathan et al. 2211.17192, Chen et al. 2302.01318, Xia et al.
2401.07851), and the rates that may have a column for each run."""
