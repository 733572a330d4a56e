"""A sweep of runs as the papers' tables and figures show it."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from outrider import theory
from outrider.base.terminal import plain
from outrider.extras.view.plotting import (
    LINE_STYLES,
    Axes,
    Figure,
    Rows,
    beside,
    finish,
    named,
    style_of,
    use_integer_ticks,
)
from outrider.extras.view.report import differing, labels, readable
from outrider.extras.view.table_formats import marks, star_notes
from outrider.lab.runs.row import Row
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.runs.table import caveats, cell
from outrider.lab.runs.task_table import task_table
from outrider.lab.statistics.intervals import Interval

TOKENS = 128
"""The tokens of a sample in Chen et al.'s Figure 1."""


def pivot(summaries: Sequence[Summary], rate: str, setting: str) -> Table:
    """Returns a rate by drafter, with a column for each value of a setting.

    If the runs differ in more settings, there is a line for each drafter under each of them.
    """
    values = [_settings(summary.run).get(setting) for summary in summaries]
    columns = list(dict.fromkeys(values))
    lines: dict[str, dict[Any, Interval | None]] = {}
    for summary, others, value in zip(
        summaries, _other_settings(summaries, setting), values, strict=True
    ):
        for row in summary.rows:
            name = ", ".join(filter(None, (row.drafter, others)))
            lines.setdefault(name, {})[value] = row.rates.get(rate)
    result = Table(title=rate.replace("_", " "), box=SIMPLE_HEAD, collapse_padding=True)
    result.add_column("drafter", overflow="fold")
    for value in columns:
        heading = f"{setting.rpartition('.')[2]}\n{value}"
        result.add_column(plain(heading), justify="right", no_wrap=True)
    for name, cells in lines.items():
        result.add_row(plain(name), *(cell(cells.get(value), rate) for value in columns))
    return result


def by_run(summaries: Sequence[Summary], rate: str) -> Table:
    """Returns a rate by drafter, with a column for each run and the stars of each run's tests."""
    rows = [row for summary in summaries for row in summary.rows]
    notes = [*star_notes(summaries), *(caveats(rows) if rate in TIMED else [])]
    result = Table(
        title=rate.replace("_", " "),
        caption=plain("\n".join(notes)),
        box=SIMPLE_HEAD,
        collapse_padding=True,
    )
    result.add_column("drafter", no_wrap=True)
    for name in labels([summary.run for summary in summaries]):
        heading = name.replace("temperature ", "T = ").replace(", ", "\n") or rate.replace("_", " ")
        result.add_column(plain(heading), justify="right", no_wrap=True)
    columns = [
        {row.drafter: _marked(row, rate, marks(summary)) for row in summary.rows}
        for summary in summaries
    ]
    for drafter in dict.fromkeys(name for column in columns for name in column):
        result.add_row(plain(drafter), *(column.get(drafter, "-") for column in columns))
    return result


def _marked(row: Row, rate: str, stars: Mapping[tuple[str, str], str]) -> str:
    doubt = " !" * (rate in TIMED and bool(row.doubts))
    return cell(row.rates.get(rate), rate, mark=doubt + stars.get((row.drafter, rate), ""))


def spec_bench(summaries: Sequence[Summary]) -> Table:
    """Returns Spec-Bench's leaderboard: the speedup by task, the tokens a call and the speedup."""
    names = labels([summary.run for summary in summaries])
    rows = [
        replace(row, drafter=named(row.drafter, name))
        for summary, name in zip(summaries, names, strict=True)
        for row in summary.rows
        if row.rates["speedup"] is not None
    ]
    return task_table(rows)


def chen_table1(summaries: Sequence[Summary]) -> Table:
    """Returns Chen et al.'s (2302.01318) Table 1, with a line for each drafter on each task.

    ArS, autoregressive sampling, is the drafter `none`. SpS is speculative sampling.
    """
    result = Table(box=SIMPLE_HEAD, collapse_padding=True)
    for heading in ("sampling method", "benchmark"):
        result.add_column(heading, overflow="fold")
    for heading in ("result", "mean token time", "speedup"):
        result.add_column(heading, justify="right")
    for summary, sampling in zip(summaries, _samplings(summaries), strict=True):
        for task in summary.tasks:
            for row in (row for row in summary.rows if task in row.tasks):  # that was decoded
                method = f"SpS ({sampling}), {row.drafter}" if _drafts(row) else f"ArS ({sampling})"
                result.add_row(plain(method), plain(task), *_results(row, task))
    return result


def _results(row: Row, task: str) -> tuple[str, str, str]:
    """Returns the score, the milliseconds of a token and the speedup on a task."""
    rates = row.tasks[task]
    scores = [f"{name} {cell(rates[name], name)}" for name in row.scores if rates[name] is not None]
    speed = rates["tokens_per_second"]
    time = "-" if speed is None else f"{1000 / speed.value:.2f} ms/token"
    return "\n".join(scores) or "-", time, cell(rates["speedup"], "speedup")


def chen_figure1(summaries: Sequence[Summary]) -> Figure:
    """Returns Chen et al.'s (2302.01318) Figure 1: three panels over gamma.

    From the left: the time of 128 tokens, with its standard deviation over texts; the efficiency,
    which is the tokens a call over gamma + 1; and the time of a loop, which is a round.
    """
    groups: dict[str, list[Summary]] = {}
    for summary, sampling in zip(summaries, _samplings(summaries), strict=True):
        groups.setdefault(sampling, []).append(summary)
    rows = {str(number): summary.rows for number, summary in enumerate(summaries)}
    panels = {
        f"seconds for {TOKENS} tokens": _sample_seconds,
        "tokens a call / (gamma + 1)": _efficiency,
        "milliseconds a round": _round_milliseconds,
    }
    plots = [
        partial(_panel, groups=groups, label=label, point=point) for label, point in panels.items()
    ]
    return beside(plots, rows, 3.4)


BY_RUN = ("alpha", "alpha_tested", "block_efficiency", "tokens_per_second", "speedup")
"""The rates that can be shown with a column for each run."""

TIMED = ("tokens_per_second", "speedup")
"""Those that a doubtful clock makes doubtful."""

Point = tuple[float, float]
"""A figure with its standard deviation, which is 0 where there is none."""


def _panel(
    axes: Axes,
    rows: Rows,
    *,
    groups: Mapping[str, Sequence[Summary]],
    label: str,
    point: Callable[[Summary, Row], Point],
) -> None:
    for number, (sampling, runs) in enumerate(groups.items()):
        curves: dict[str, dict[int, Point]] = {}
        for summary in runs:
            for row in filter(_drafts, summary.rows):
                curves.setdefault(row.drafter, {})[row.gamma] = point(summary, row)
        for drafter, points in curves.items():
            gammas = sorted(points)
            style = style_of(rows, drafter) | {"linestyle": LINE_STYLES[number % len(LINE_STYLES)]}
            heights, spreads = zip(*(points[gamma] for gamma in gammas), strict=True)
            # One legend serves all panels.
            name = f"{drafter}, {sampling}" if point is _sample_seconds else None
            axes.errorbar(gammas, heights, spreads if any(spreads) else None, label=name, **style)
    axes.set_xlabel("gamma (there: K)")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    use_integer_ticks(axes)
    finish(axes)


def _sample_seconds(summary: Summary, row: Row) -> Point:
    times = [
        TOKENS * m.decoding.seconds / m.decoding.counts.emitted
        for m in summary.run.measurements
        if m.decoding is not None and m.drafter == row.drafter and m.prompt in summary.prompts
    ]
    return statistics.mean(times), statistics.stdev(times) if len(times) > 1 else 0.0


def _efficiency(summary: Summary, row: Row) -> Point:
    tokens = row.rates["block_efficiency"]
    assert tokens is not None, "a row that was not decoded has no counts or times"
    return theory.filled_share(tokens.value, row.gamma), 0.0


def _round_milliseconds(summary: Summary, row: Row) -> Point:
    assert row.seconds is not None and row.counts is not None, (
        "a row that was not decoded has no counts or times"
    )
    return 1000 * row.seconds["total"] / row.counts.rounds, 0.0


def _drafts(row: Row) -> bool:
    return row.counts is not None and row.counts.drafted > 0


def _settings(run: Run) -> dict[str, Any]:
    return readable(run.facts["settings"])


def _samplings(summaries: Sequence[Summary]) -> list[str]:
    """Returns the sampling of each run in words, and what else differs except gamma."""
    others = _other_settings(summaries, "gamma", "sampling.")
    return [
        ", ".join(filter(None, (_sampling(summary.run), other)))
        for summary, other in zip(summaries, others, strict=True)
    ]


def _sampling(run: Run) -> str:
    settings = _settings(run)
    temperature = settings["sampling.temperature"]
    top_p = settings.get("sampling.top_p", 1)
    if temperature == 0:
        return "greedy"
    kind = f"nucleus {top_p:g}" if top_p < 1 else "standard"
    return kind if temperature == 1 else f"{kind}, temperature {temperature:g}"


def _other_settings(summaries: Sequence[Summary], *settings: str) -> list[str]:
    """Returns what differs between the runs besides some settings, in words."""
    return differing(
        [
            {
                name: value
                for name, value in _settings(summary.run).items()
                if not name.startswith(settings)
            }
            for summary in summaries
        ]
    )


TABLES: Mapping[str, Callable[[Sequence[Summary]], Table]] = {
    "leviathan_table3": partial(pivot, rate="alpha", setting="sampling.temperature"),
    "leviathan_table5": partial(pivot, rate="alpha_rule", setting="verifier.lenience"),
    "chen_table1": chen_table1,
    "spec_bench": spec_bench,
    **{rate: partial(by_run, rate=rate) for rate in BY_RUN},
}
"""By name, the papers' tables (Leviathan et al. 2211.17192, Chen et al. 2302.01318, Xia et al.
2401.07851), and the rates that may have a column for each run."""

FIGURES: Mapping[str, Callable[[Sequence[Summary]], Figure]] = {"chen_figure1": chen_figure1}
"""By name, the papers' figures."""
