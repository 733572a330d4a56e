"""Contents: what the page of one or more runs shows."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from outrider.extras.view.figures import figures, score_times
from outrider.extras.view.page.render import render
from outrider.extras.view.page.texts import questions
from outrider.extras.view.plotting import Figure, as_svg
from outrider.lab.runs.across import pairs_across
from outrider.lab.runs.conclusion import finding_of, history, tasks_line, unreliable
from outrider.lab.runs.labels import brief, date, flatten, labelled, model, readable
from outrider.lab.runs.row import TASK_RATES, Row, in_order, ranking
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary
from outrider.lab.statistics.pairs import Pair
from outrider.lab.statistics.prediction import FACTORS
from outrider.lab.tables.details import detail_tables, pairs_table, plain_rows, settings_tables
from outrider.lab.tables.formats import FORMATS, SUFFIXES
from outrider.lab.tables.layouts import labelled_rows, tasks_table
from outrider.lab.tables.rates import SHORT, rates_table, starred_rates_table, tested_speedup
from outrider.lab.tables.table import Cell, Column, Table, names_of

ORDER = ("speedup", "speedup_by_task", "tokens_against_cost", "time_over_rows")
"""The figures that come first: then three columns are about equally long."""


FIXED = 3
"""The columns of a table by task that are no tasks: the drafter, tokens per call, and overall."""

MOST_RUNS = 4
"""The most runs between which a page shows the differences: their number grows fast."""


@final
@dataclass(frozen=True, slots=True)
class Follow:
    """How a page follows a run that is measured.

    address: where to read the state of the run, a text that changes with its progress.
    state: the present one.
    """

    address: str
    state: str


def drawings(summaries: Mapping[str, Summary]) -> dict[str, Figure]:
    """Returns the figures of some runs, by name; none if no prompt is finished.

    summaries: by the run's label.
    """
    rows = {
        label: in_order(_tested(summary)) for label, summary in summaries.items() if summary.rows
    }
    if not rows:
        return {}
    times = {label: score_times(summaries[label].run) for label in rows}
    drawn = figures(rows, times)
    first = [name for name in ORDER if name in drawn]
    return {name: drawn[name] for name in dict.fromkeys([*first, *drawn])}


def _tested(summary: Summary) -> list[Row]:
    """Returns the rows of a run, with the intervals of speedups that agree with their tests."""
    tests = {
        pair.one: {"speedup": tested_speedup(pair)} for pair in summary.over_plain if pair.reachable
    }
    return [replace(row, rates={**row.rates, **tests.get(row.drafter, {})}) for row in summary.rows]


def runs_page(
    summaries: Mapping[str, Summary],
    drawn: Mapping[str, Figure],
    *,
    follow: Follow | None = None,
    links: str = "",
) -> str:
    """Returns the page of some runs.

    summaries: by the run's label. drawn: what `drawings` returns, or nothing.
    follow: how it follows the run, or None if the run has ended. links: those of a server, as HTML.
    """
    from markupsafe import Markup

    rows = labelled_rows(summaries)
    ordered = in_order(rows)
    runs = {label: summary.run for label, summary in summaries.items()}
    families = [_named(summary.pairs, label) for label, summary in summaries.items()]
    if len(summaries) <= MOST_RUNS:
        families.append(pairs_across(summaries))
    over_plain = [
        pair for label, run in summaries.items() for pair in _named(run.over_plain, label)
    ]
    leading = next((name for name in (ranking(rows), "alpha") if name in drawn), None)
    title = _title(summaries)
    banner = unreliable({label: summary.rows for label, summary in summaries.items()})
    shown = rates_table({"": rows}, title, over_plain=over_plain)
    caveats = tuple(note for note in shown.notes if not note.startswith("Timings"))
    rates = starred_rates_table(summaries, title)
    downloads = {f"rates.{SUFFIXES[name]}": write(rates) for name, write in FORMATS.items()}
    as_json = json.dumps({"rows": plain_rows(summaries)})
    return render(
        "runs",
        title=title,
        facts=" | ".join(dict.fromkeys(map(brief, runs.values()))),
        banner=banner,
        findings={label: finding_of(summary) for label, summary in summaries.items()},
        history=history,
        tasks_line=tasks_line,
        leading=leading,
        rates=replace(shown, notes=caveats),
        short=SHORT,
        tasks=_task_tables(ordered),
        predictions=_predictions_table(ordered),
        families=[_family_table(pairs) for pairs in families if pairs],
        details=detail_tables(summaries),
        figures={name: Markup(as_svg(figure, name)) for name, figure in drawn.items()},
        summaries=summaries,
        lossy=sorted({row.drafter for row in rows if not row.lossless}),
        runs=runs,
        date=date,
        model=model,
        readable=readable,
        settings=[*settings_tables(runs), _shared_settings_table(list(runs.values()))],
        questions=[] if follow else questions(next(iter(summaries.values()))),
        files={
            "rates.json": _data_url("application/json", as_json),
            **{name: _data_url("text/plain", content) for name, content in downloads.items()},
        },
        links=Markup(links),
        follow=follow,
    )


def _named(pairs: Sequence[Pair], label: str) -> list[Pair]:
    """Returns the pairs of a run with its label behind the names of the drafters."""
    return [
        replace(pair, one=labelled(pair.one, label), other=labelled(pair.other, label))
        for pair in pairs
    ]


def _family_table(pairs: Sequence[Pair]) -> Table:
    """Returns the table of some differences, whose title says of which."""
    table, first = pairs_table(pairs), f"{pairs[0].one} minus {pairs[0].other}"
    more = ", \u2026" * (len(pairs) > 1)
    return replace(table, title=f"{len(pairs)} {table.title}: {first}{more}")


def _title(summaries: Mapping[str, Summary]) -> str:
    counts: Sequence[int] = sorted({len(summary.prompts) for summary in summaries.values()})
    prompts = " to ".join(str(count) for count in (counts[0], counts[-1])[: len(counts)])
    drafters = max(len(summary.run.drafters) for summary in summaries.values())
    runs = f"{len(summaries)} runs" if len(summaries) > 1 else f"{drafters} drafters"
    return f"{runs}, {prompts} prompt{'' if counts[-1] == 1 else 's'}"


def _data_url(kind: str, content: str) -> str:
    """Returns an address that holds its content. kind: the media type."""
    return f"data:{kind};base64,{base64.b64encode(content.encode()).decode()}"


def _task_tables(rows: Sequence[Row]) -> list[Table]:
    """Returns each rate by task, speed first, and alpha by category; none of one task alone."""
    alpha = "alpha" if any(row.rates["alpha"] for row in rows) else "alpha_tested"
    shown = []
    for rate in (*TASK_RATES, alpha):
        measured = [row for row in rows if row.rates[rate]]
        table = tasks_table(measured, rate)
        if len(table.columns) > FIXED + 1 and measured:
            shown.append(table)
    return shown


def _predictions_table(rows: Sequence[Row]) -> Table | None:
    """Returns the speedups that Theorem 3.8 predicts beside those measured; None if it has none."""
    meanings = {
        "c": "the time of a draft token over that of a target call",
        "scoring costs": "the time of a call that scores a draft over that of one token",
        "best gamma, in theory": "the draft length with the largest speedup for this alpha and c",
        "predicted": "the speedup by Theorem 3.8 for this alpha, c and gamma",
        **{f"times {factor}": meaning for factor, meaning in FACTORS.items()},
        "measured": "",
    }
    columns = (Column(heading, meaning=meaning) for heading, meaning in meanings.items())
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


def _shared_settings_table(runs: Sequence[Run]) -> Table:
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
