"""Heat map: the speedup of each drafter in each run of a sweep over gamma."""

from statistics import mode

from outrider.extras.view.plotting import Axes, Rows, say, short

Cells = dict[str, dict[str, float]]
"""Speedups, by the drafter and the run's label."""


def cells(rows: Rows) -> Cells:
    """Returns the speedups of the drafters that drafted, by falling best of each."""
    found: Cells = {}
    for label, run in rows.items():
        for row in run:
            speedup = row.rates["speedup"]
            if speedup is not None and row.counts is not None and row.counts.drafted:
                found.setdefault(row.drafter, {})[label] = speedup.value
    return dict(sorted(found.items(), key=lambda item: -max(item[1].values())))


def height(rows: Rows) -> float:
    """Returns the height of the heat map in inches."""
    return 1.6 + 0.3 * len(cells(rows))


def plot_heat_map(axes: Axes, rows: Rows) -> None:
    """Plots a column for each run, by rising gamma; 1 is white, and a star is a drafter's best."""
    from matplotlib.colors import TwoSlopeNorm

    found = cells(rows)
    # That of most rows: a drafter may have a gamma of its own.
    gammas = {label: mode(row.gamma for row in run) for label, run in rows.items() if run}
    labels = sorted(gammas, key=lambda label: gammas[label])
    nothing = float("nan")
    values = [[by_run.get(label, nothing) for label in labels] for by_run in found.values()]
    known = [speedup for by_run in found.values() for speedup in by_run.values()]
    norm = TwoSlopeNorm(1.0, min(0.5, *known), max(1.5, *known))
    # Half transparent, so that the figures can be read on every colour.
    axes.imshow(values, cmap="RdBu", norm=norm, alpha=0.5, aspect="auto")
    for line, (drafter, by_run) in enumerate(found.items()):
        for column, label in enumerate(labels):
            if label in by_run:
                speedup = by_run[label]
                mark = "*" * (len(by_run) > 1 and speedup == max(by_run.values()))
                text = f"{speedup:.2f}{mark}"
                axes.text(column, line, text, ha="center", va="center", fontsize=7, color="#111")
                say(axes, column, line, f"{drafter}, {label}", speedup)
    axes.set_xticks(range(len(labels)), [short(label) for label in labels], rotation=30, ha="right")
    axes.set_yticks(range(len(found)), [short(drafter) for drafter in found])
    axes.set_xlabel("speedup (*: the best in its row)")
