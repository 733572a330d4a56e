"""What all figures of a comparison share: their size, colours and files."""

import re
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from outrider.lab.runs.row import Row
from outrider.lab.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#8c564b")
"""Colours that colour-blind people can tell apart (Okabe and Ito 2008), and two more."""

MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
LINE_STYLES = ("-", "--", ":", "-.")
WIDTH, DPI = 4.2, 200
"""The width in inches, and the dots per inch."""

LABEL = 36
"""The most characters of a label beside an axis, so that it leaves room for what is plotted."""

INK = "#010203"
"""The colour of text and axes. In an SVG it becomes the colour of the text around the figure."""

Rows = Mapping[str, Sequence[Row]]
"""The rows of each run, by its label."""

Plot = Callable[["Axes", Rows], None]


def drawn(plot: Plot, rows: Rows, height: float) -> "Figure":
    """Returns the figure of a plot, `height` inches high."""
    return beside([plot], rows, height)


def beside(plots: Sequence[Plot], rows: Rows, height: float) -> "Figure":
    """Returns a figure of several plots, one beside the other."""
    import matplotlib
    from matplotlib.figure import Figure

    inks: tuple[Any, ...] = (
        "text.color",
        "axes.edgecolor",
        "axes.labelcolor",
        "xtick.color",
        "ytick.color",
    )
    # Names are not mathematics, whatever dollar signs they hold.
    settings: dict[Any, Any] = {"font.size": 10, "axes.labelsize": 9, "text.parse_math": False}
    with matplotlib.rc_context({**settings, **dict.fromkeys(inks, INK)}):
        figure = Figure(figsize=(WIDTH * len(plots), height), layout="constrained")
        for axes, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
            axes.spines[["top", "right"]].set_visible(False)
            plot(axes, rows)
    return figure


def as_png(figure: "Figure") -> bytes:
    """Returns a figure as a PNG file with a white background."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def as_svg(figure: "Figure", name: str) -> str:
    """Returns a figure as an SVG element for a page, in the colours of the page.

    name: starts the ids inside, so that figures on one page keep theirs apart.
    """
    import matplotlib

    file = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{name}-", svg)
    svg = svg.replace(INK, "currentColor")
    for number, colour in enumerate(COLOURS):
        svg = svg.replace(colour, f"var(--series-{number}, {colour})")
    # The page decides how wide it is; the view box keeps its proportions.
    return re.sub(r'^<svg [^>]*?(viewBox="[^"]*")[^>]*>', _opening, svg, count=1)


def _opening(match: re.Match[str]) -> str:
    links = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg {match[1]} {links} aria-hidden="true">'


def _drafters(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row.drafter for run in rows.values() for row in run))


def style_of(rows: Rows, drafter: str) -> dict[str, Any]:
    """Returns the colour and the mark of a drafter, the same in all figures."""
    index = _drafters(rows).index(drafter) % len(COLOURS)
    return {"color": COLOURS[index], "marker": MARKS[index], "markersize": 4.5}


def use_integer_ticks(axes: "Axes") -> None:
    """Has the x axis count in whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def plot_line(
    axes: "Axes",
    rows: Rows,
    label: str,
    drafter: str,
    ys: Sequence[float | None],
    *,
    mark: str | None = None,
) -> None:
    """Plots a drafter's values at 1, 2, ..., in the line style of its run.

    mark: the marker, if it is not the drafter's own.
    """
    style = style_of(rows, drafter)
    if mark is not None:
        style["marker"] = mark
    style["linestyle"] = LINE_STYLES[list(rows).index(label) % len(LINE_STYLES)]
    in_legend = label == next(iter(rows))  # once per drafter
    xs = range(1, len(ys) + 1)
    values = [float("nan") if y is None else y for y in ys]
    axes.plot(xs, values, label=drafter if in_legend else None, linewidth=1.2, **style)


def plot_interval(axes: "Axes", figure: Interval, y: float, style: Mapping[str, Any]) -> None:
    """Plots a figure as a mark at height `y`, and its interval as a line."""
    if figure.low is not None and figure.high is not None:
        axes.plot([figure.low, figure.high], [y, y], color=style["color"], linewidth=1.6)
    axes.plot([figure.value], [y], linestyle="none", **style)


def short(label: str) -> str:
    """Returns a label with its middle left out if it is long.

    >>> short("gamma 4")
    'gamma 4'
    """
    kept = LABEL // 2
    return label if len(label) <= LABEL else f"{label[: kept - 1]}…{label[-kept:]}"


def finish(axes: "Axes") -> None:
    """Adds the grid, and the legend above the axes, where it covers no data."""
    axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=min(3, len(labels)),
            frameon=False,
            fontsize=8,
        )
