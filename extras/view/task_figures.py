"""Figures by task and by run: bands of intervals, and grids of figures."""

from statistics import mode
from typing import Any

from outrider.extras.view.plotting import Canvas, Plot, Rows, short, value_of
from outrider.lab.runs.row import Row, drafted
from outrider.lab.statistics.intervals import Interval

Cells = dict[str, dict[str, Interval]]
"""Figures, by the name of a line and that of a column."""


def plots_by_task(rows: Rows) -> dict[str, Plot]:
    """Returns the plots of the first run, by name, if its prompts are of several tasks."""
    plots: dict[str, Plot] = {}
    if len(_timed_tasks(rows)) > 1:
        plots["speedup_by_task"] = _plot_speedups
    categories = _by_category(rows)
    if len({name for by_category in categories.values() for name in by_category}) > 1:
        plots["categories"] = _plot_categories
    return plots


def _timed(rows: Rows) -> list[Row]:
    """Returns the rows of the first run that have a speedup, without plain decoding."""
    run = next(iter(rows.values()))
    return [row for row in run if row.rates["speedup"] and drafted(row)]


def _timed_tasks(rows: Rows) -> list[str]:
    tasks = (task for row in _timed(rows) for task, rates in row.tasks.items() if rates["speedup"])
    return list(dict.fromkeys(tasks))


def _plot_speedups(on: Canvas) -> None:
    """Plots a band for each task, in which each drafter has a line of its own."""
    tasks, run = _timed_tasks(on.rows), _timed(on.rows)
    has_ends = False
    on.height(1.2 + len(tasks) * (0.12 + 0.11 * len(run)))
    for number, task in enumerate(tasks):
        for line, row in enumerate(run):
            speedup = row.tasks.get(task, {}).get("speedup")
            if speedup is not None:
                has_ends |= speedup.low is not None
                height = number - 0.4 + 0.8 * (line + 0.5) / len(run)
                style = on.style(row.drafter)
                on.interval(speedup, height, f"{row.drafter}, {task}", style)
    for row in run:
        on.axes.plot([], [], linestyle="none", label=row.drafter, **on.style(row.drafter))
    on.axes.axvline(1, color="#999", linewidth=0.8, zorder=0)
    on.axes.set_yticks(range(len(tasks)), [short(task) for task in tasks])
    on.axes.set_ylim(len(tasks) - 0.5, -0.5)
    on.axes.set_xlim(0, on.axes.dataLim.xmax * 1.05)
    on.finish("speedup over plain decoding" + ", 95%" * has_ends)
    for number in range(1, len(tasks)):
        on.axes.axhline(number - 0.5, color="#999", linewidth=0.4, alpha=0.5)


def _by_category(rows: Rows) -> Cells:
    """Returns alpha in the first run by category and drafter, whichever are more on the lines."""
    cells: Cells = {}
    run = [row for row in next(iter(rows.values())) if any(row.categories.values())]
    is_wide = len(run) > len({name for row in run for name in row.categories})
    for row in run:
        for category, alpha in row.categories.items():
            names = (row.drafter, category) if is_wide else (category, row.drafter)
            if alpha is not None:
                cells.setdefault(names[0], {})[names[1]] = alpha
    return cells


def _plot_categories(on: Canvas) -> None:
    """Plots a cell for each drafter and category."""
    cells = _by_category(on.rows)
    on.height(1.4 + 0.3 * len(cells))
    columns = list(dict.fromkeys(name for by_name in cells.values() for name in by_name))
    _plot_grid(on, cells, columns, cmap="Blues", vmin=0, vmax=1)


def plot_heat_map(on: Canvas) -> None:
    """Plots the speedups of the drafters that drafted, those with the largest first.

    A column for each run, by rising gamma; 1 is white, and a star is a drafter's best.
    """
    from matplotlib.colors import TwoSlopeNorm

    cells: Cells = {}
    for label, row in on.each_row():
        speedup = row.rates["speedup"]
        if speedup is not None and drafted(row):
            cells.setdefault(row.drafter, {})[label] = speedup
    cells = dict(sorted(cells.items(), key=lambda item: -max(map(value_of, item[1].values()))))
    on.height(1.6 + 0.3 * len(cells))
    # That of most rows: a drafter may have a gamma of its own.
    gammas = {label: mode(row.gamma for row in run) for label, run in on.rows.items() if run}
    speedups = [value_of(speedup) for by_run in cells.values() for speedup in by_run.values()]
    norm = TwoSlopeNorm(1.0, min(0.5, *speedups), max(1.5, *speedups))
    columns = sorted(gammas, key=lambda label: gammas[label])
    _plot_grid(on, cells, columns, marked=True, cmap="RdBu", norm=norm)
    on.axes.set_xlabel("speedup (*: the best in its row)")


def _plot_grid(
    on: Canvas, cells: Cells, columns: list[str], *, marked: bool = False, **colours: Any
) -> None:
    """Plots a coloured cell for each figure. marked: whether the largest of a line has a star."""
    nothing = float("nan")
    values = [
        [value_of(by_name[name]) if name in by_name else nothing for name in columns]
        for by_name in cells.values()
    ]
    # Half transparent, so that the figures can be read on every colour. Each cell is a shape, since
    # served pages may show no image.
    xs, ys = ([number - 0.5 for number in range(len(of) + 1)] for of in (columns, cells))
    on.axes.pcolormesh(xs, ys, values, alpha=0.5, **colours)
    on.axes.invert_yaxis()
    for y, (line, by_name) in enumerate(cells.items()):
        best = max(map(value_of, by_name.values()))
        for x, name in enumerate(columns):
            if name in by_name:
                value = value_of(by_name[name])
                mark = "*" * (marked and len(by_name) > 1 and value == best)
                text = f"{value:.2f}{mark}"
                on.axes.text(x, y, text, ha="center", va="center", fontsize=7, color="#111")
                on.note(x, y, f"{line}, {name}", by_name[name])
    on.axes.set_xticks(range(len(columns)), map(short, columns), rotation=30, ha="right")
    on.axes.set_yticks(range(len(cells)), map(short, cells))
    on.axes.tick_params(length=0)
