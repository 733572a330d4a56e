"""Plots of a bench: time against rows, throughput against batch, time against context."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

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
    """Writes a PNG for each curve into `folder`, and returns their paths."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    paths = []
    for name, (xs, ys) in curves.items():
        figure, axes = pyplot.subplots(figsize=(4.2, 3), dpi=200, layout="constrained")
        axes.plot(xs, ys, marker="o", color="#0072b2")
        axes.set(xlabel=AXIS_LABELS[name][0], ylabel=AXIS_LABELS[name][1], ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
        data = BytesIO()
        figure.savefig(data, format="png")
        pyplot.close(figure)
        path = folder / f"{name.replace(' ', '_')}.png"
        path.write_bytes(data.getvalue())
        paths.append(path)
    return paths
