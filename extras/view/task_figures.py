"""The figure of speedups by task, in bands of intervals."""

from outrider.extras.view.plotting import Canvas, Rows, short
from outrider.lab.runs.row import Row, drafted


def _timed(rows: Rows) -> list[Row]:
    """Returns the rows of the first run that have a speedup, without plain decoding."""
    run = next(iter(rows.values()))
    return [row for row in run if row.rates["speedup"] and drafted(row)]


def timed_tasks(rows: Rows) -> list[str]:
    """Returns the tasks of the first run that have a speedup."""
    tasks = (task for row in _timed(rows) for task, rates in row.tasks.items() if rates["speedup"])
    return list(dict.fromkeys(tasks))


def plot_speedups_by_task(on: Canvas) -> None:
    """Plots a band for each task, in which each drafter has a line of its own."""
    tasks, run = timed_tasks(on.rows), _timed(on.rows)
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
