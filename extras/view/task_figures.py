"""Figures by task: where each drafter is fast, and what is accepted of it."""

import itertools

from outrider.extras.view.plotting import (
    Axes,
    Plot,
    Rows,
    finish,
    plot_interval,
    say,
    short,
    style_of,
)
from outrider.lab.runs.row import Row


def plots_by_task(rows: Rows) -> dict[str, Plot]:
    """Returns the plots of the first run, by name, if its prompts are of several tasks."""
    run = next(iter(rows.values()))
    plots: dict[str, Plot] = {}
    if len(_timed_tasks(rows)) > 1:
        plots["speedup_by_task"] = _plot_speedups
    if len(_categories(rows)) > 1 and any(any(row.categories.values()) for row in run):
        plots["categories"] = _plot_categories
    return plots


def speedups_height(rows: Rows) -> float:
    """Returns the height of `speedup_by_task` in inches."""
    return 1.2 + len(_timed_tasks(rows)) * (0.12 + 0.11 * len(_timed(rows)))


def categories_height(rows: Rows) -> float:
    """Returns the height of `categories` in inches."""
    return 1.4 + 0.3 * max(len(_categories(rows)), len(_by_category(rows)))


def _timed(rows: Rows) -> list[Row]:
    """Returns the rows of the first run that have a speedup, without plain decoding."""
    run = next(iter(rows.values()))
    return [row for row in run if row.rates["speedup"] and row.counts and row.counts.drafted]


def _timed_tasks(rows: Rows) -> list[str]:
    tasks = (task for row in _timed(rows) for task, rates in row.tasks.items() if rates["speedup"])
    return list(dict.fromkeys(tasks))


def _plot_speedups(axes: Axes, rows: Rows) -> None:
    """Plots a band for each task, in which each drafter has a line of its own."""
    tasks, run = _timed_tasks(rows), _timed(rows)
    for number, task in enumerate(tasks):
        for line, row in enumerate(run):
            speedup = row.tasks.get(task, {}).get("speedup")
            if speedup is not None:
                height = number - 0.4 + 0.8 * (line + 0.5) / len(run)
                style = style_of(rows, row.drafter)
                plot_interval(axes, speedup, height, f"{row.drafter}, {task}", style)
    for row in run:
        axes.plot([], [], linestyle="none", label=row.drafter, **style_of(rows, row.drafter))
    axes.axvline(1, color="#999", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(tasks)), [short(task) for task in tasks])
    axes.set_ylim(len(tasks) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("speedup over plain decoding, 95%")
    finish(axes)
    for number in range(1, len(tasks)):
        axes.axhline(number - 0.5, color="#999", linewidth=0.4, alpha=0.5)


def _categories(rows: Rows) -> list[str]:
    names = (name for run in rows.values() for row in run for name in row.categories)
    return list(dict.fromkeys(names))


def _by_category(rows: Rows) -> list[Row]:
    return [row for row in next(iter(rows.values())) if any(row.categories.values())]


def _plot_categories(axes: Axes, rows: Rows) -> None:
    """Plots a cell for each drafter and category, the more numerous ones below each other."""
    run, categories = _by_category(rows), _categories(rows)
    names = [short(name) for name in categories], [short(row.drafter) for row in run]
    is_wide = len(run) > len(categories)
    below, across = reversed(names) if is_wide else names
    rates = [[row.categories.get(name) for row in run] for name in categories]
    table = [[float("nan") if rate is None else rate.value for rate in line] for line in rates]
    axes.pcolormesh(
        list(zip(*table, strict=True)) if is_wide else table, cmap="Blues", vmin=0, vmax=1
    )
    axes.invert_yaxis()
    for (category, line), (drafter, row) in itertools.product(enumerate(rates), enumerate(run)):
        rate = line[drafter]
        x, y = (category, drafter) if is_wide else (drafter, category)
        colour = "white" if rate is not None and rate.value > 0.6 else "black"
        text = "-" if rate is None else f"{rate.value:.2f}"
        axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=7.5, color=colour)
        if rate is not None:
            say(axes, x + 0.5, y + 0.5, f"{row.drafter}, {categories[category]}", rate)
    axes.set_yticks([y + 0.5 for y in range(len(below))], below)
    axes.set_xticks([x + 0.5 for x in range(len(across))], across, rotation=40, ha="right")
    axes.tick_params(length=0)
