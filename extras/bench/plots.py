"""Plots of a bench: time against rows, throughput against batch, time against context."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from outrider.extras.bench.entrants import OUTRIDER_PLAIN

AXIS_LABELS = {
    "rows": ("rows scored in a pass", "milliseconds a pass"),
    "batches": ("texts at once", "tokens a second, prompts read"),
    "batches with prompts": ("texts at once", "tokens a second, prompts included"),
    "contexts": ("tokens of context", "milliseconds a pass"),
}
"""By curve, the labels of the x and the y axis."""


def plot_curves(
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], folder: Path
) -> list[Path]:
    """Writes a PNG for each kind of curve into `folder`, and returns their paths.

    A curve of another entrant than Outrider without drafts has that name behind a comma.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    paths = []
    for kind, labels in AXIS_LABELS.items():
        figure, axes = pyplot.subplots(figsize=(4.2, 3), dpi=200, layout="constrained")
        for name, (xs, ys) in curves.items():
            if name.partition(", ")[0] == kind:
                axes.plot(xs, ys, marker="o", label=name.partition(", ")[2] or OUTRIDER_PLAIN)
        if len(axes.lines) > 1:
            axes.legend(fontsize="small", frameon=False)
        axes.set(xlabel=labels[0], ylabel=labels[1], ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
        data = BytesIO()
        figure.savefig(data, format="png")
        pyplot.close(figure)
        path = folder / f"{kind.replace(' ', '_')}.png"
        path.write_bytes(data.getvalue())
        paths.append(path)
    return paths
