"""What all figures of a comparison share: their size, colours and files."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import BytesIO, StringIO
from threading import Lock
from typing import TYPE_CHECKING, Any, cast, final

from outrider.lab.runs.labels import labelled
from outrider.lab.runs.row import Row
from outrider.lab.statistics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414  other modules take it from here
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414
else:
    Axes = Figure = Any  # what they stand for takes long to import

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#8c564b")
"""Colours that colour-blind people can tell apart (Okabe and Ito 2008), and two more."""

MARKS, FILLS = ("o", "s", "D", "^", "v", "P", "X", "*"), ("full", "none", "left")
"""How marks are filled: another way each time that the colours begin again."""

LINE_STYLES = ("-", "--", ":", "-.")
WIDTH, HEIGHT, DPI = 4.2, 3.4, 200
"""The usual width and height in inches, and the dots per inch."""

LEGEND_COLUMNS, LEGEND_LINE, LEGEND_LINES = 3, 0.165, 3
"""A legend's columns, the inches of a line, and the lines that a figure has room for."""

LABEL = 36
"""The most characters of a label beside an axis, so that it leaves room for what is plotted."""

FONTS = (
    "DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Microsoft YaHei",
    "WenQuanYi Zen Hei", "Arial Unicode MS", "Noto Sans Arabic", "Noto Sans Devanagari",
    "Noto Emoji", "Segoe UI Emoji",
)  # fmt: skip
"""Fonts that draw what the ones before them lack, where they are installed; the first one is."""

INK = "#010203"
"""The colour of text and axes. In an SVG it becomes the colour of the text around the figure."""

_TURN = Lock()

Rows = Mapping[str, Sequence[Row]]
"""The rows of each run, by its label."""

Plot = Callable[["Canvas"], None]
Points = Mapping[Any, Interval | float | None]


def drawn(*plots: Plot, rows: Rows) -> Figure:
    """Returns a figure of one plot, or of several, one beside the other."""
    inks: Any = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    # Names are not mathematics, whatever dollar signs they hold.
    settings: dict[Any, Any] = {"font.size": 10, "axes.labelsize": 9, "text.parse_math": False}
    with _styled({**settings, **dict.fromkeys(inks, INK)}):
        import matplotlib.figure
        from matplotlib.font_manager import fontManager

        installed = fontManager.get_font_names()
        matplotlib.rcParams["font.family"] = [name for name in FONTS if name in installed]
        figure = matplotlib.figure.Figure(
            figsize=(WIDTH * len(plots), HEIGHT), layout="constrained"
        )
        for axes, plot in zip(figure.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
            axes.spines[["top", "right"]].set_visible(False)
            plot(Canvas(axes, rows))
    return figure


@contextmanager
def _styled(settings: dict[Any, Any]) -> Iterator[None]:
    """Draws with some of matplotlib's settings, which all threads share: one at a time."""
    import matplotlib

    with _TURN, matplotlib.rc_context(settings):
        yield


def as_png(figure: Figure) -> bytes:
    """Returns a figure as a PNG file with a white background."""
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # it is drawn as a box
        figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def as_svg(figure: Figure, name: str) -> str:
    """Returns a figure as an SVG element for a page, in the colours of the page.

    name: starts the ids inside, so that figures on one page keep theirs apart.
    """
    file = StringIO()
    with _styled({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a browser has other fonts
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{name}-", svg)
    svg = svg.replace(INK, "currentColor")
    for number, colour in enumerate(COLOURS):
        svg = svg.replace(colour, f"var(--series-{number}, {colour})")
    svg = svg.replace("</svg>", "".join(_notes(figure)) + "</svg>")
    # The page decides how wide it is; the view box keeps its proportions.
    links = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    opening = rf'<svg \1 {links} aria-hidden="true">'
    return re.sub(r'^<svg [^>]*?(viewBox="[^"]*")[^>]*>', opening, svg, count=1)


def value_of(figure: Interval | float) -> float:
    return figure.value if isinstance(figure, Interval) else figure


def in_words(figure: Interval | float) -> str:
    """Returns a figure with its interval in words.

    >>> in_words(Interval(1.234, 1.1, 1.4)), in_words(0.5)
    ('1.23 [1.1, 1.4]', '0.5')
    """
    if not isinstance(figure, Interval):
        return f"{figure:.3g}"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3g}"
    return f"{figure.value:.3g} [{figure.low:.3g}, {figure.high:.3g}]"


def _notes(figure: Figure) -> Iterator[str]:
    """Yields an invisible circle for everything that was said, where it was drawn."""
    for axes in figure.axes:
        for note in axes.texts:
            if not note.get_visible():
                x, y = axes.transData.transform(getattr(note, "xy")) * 72 / figure.dpi  # noqa: B009
                y = 72 * figure.get_figheight() - y  # an SVG counts from the top
                text = escape(note.get_text())
                yield f'<circle class="note" cx="{x:.1f}" cy="{y:.1f}" r="5" data-note="{text}"/>'


def short(label: str) -> str:
    """Returns a label with its middle left out if it is long.

    >>> short("gamma 4")
    'gamma 4'
    """
    kept = LABEL // 2
    return label if len(label) <= LABEL else f"{label[: kept - 1]}…{label[-kept:]}"


@final
@dataclass(frozen=True, slots=True)
class Canvas:
    """The axes of a plot, and the rows that all plots of its figure show."""

    axes: Axes
    rows: Rows

    def each_row(self) -> Iterator[tuple[str, Row]]:
        """Yields the rows of all runs, each with its run's label."""
        return ((label, row) for label, run in self.rows.items() for row in run)

    def _number(self, drafter: str) -> int:
        return [*dict.fromkeys(row.drafter for _, row in self.each_row())].index(drafter)

    def style(self, drafter: str) -> dict[str, Any]:
        """Returns the colour and the mark of a drafter, the same in all figures.

        The first 24 drafters stay apart: those that share a colour differ in mark and filling.
        """
        turn, index = divmod(self._number(drafter), len(COLOURS))
        return {
            "color": COLOURS[index],
            "marker": MARKS[(index + len(FILLS) * turn) % len(MARKS)],
            "fillstyle": FILLS[turn % len(FILLS)],
            "markerfacecoloralt": "none",
            "markersize": 4.5,
        }

    def line_style(self, label: str, drafter: str) -> str:
        """Returns the style of a line: of its run, or of one run's drafters that share a colour."""
        names = [*self.rows]
        number = names.index(label) if names[1:] else self._number(drafter) // len(COLOURS)
        return LINE_STYLES[number % len(LINE_STYLES)]

    def note(self, x: float, y: float, name: str, figure: Interval | float) -> None:
        """Notes what is drawn at a point: a page tells it to the pointer and to the keyboard."""
        self.axes.annotate(f"{name}: {in_words(figure)}", (x, y), visible=False)

    def line(self, label: str, drafter: str, points: Points, *, mark: str | None = None) -> None:
        """Plots a drafter's values, by the place of each, in the line style of its run.

        mark: the marker, if it is not the drafter's own.
        """
        style = self.style(drafter) | {"linestyle": self.line_style(label, drafter)}
        if mark is not None:
            style["marker"] = mark
        name = drafter if label == next(iter(self.rows)) else None  # once per drafter
        values = [float("nan") if it is None else value_of(it) for it in points.values()]
        self.axes.plot([*points], values, label=name, linewidth=1.2, **style)
        for x, figure in points.items():
            if figure is not None:
                self.note(x, value_of(figure), f"{labelled(drafter, label)} at {x:g}", figure)

    def mark(
        self, label: str, drafter: str, x: float, figure: Interval, *, in_legend: bool = False
    ) -> None:
        """Plots a drafter's figure at some x. in_legend: whether the legend names it, once."""
        is_new = in_legend and drafter not in self.axes.get_legend_handles_labels()[1]
        style = self.style(drafter) | {"linestyle": "none", "label": drafter if is_new else None}
        self.axes.plot([x], [figure.value], **style)
        self.note(x, figure.value, f"{labelled(drafter, label)} at {x:.3g}", figure)

    def interval(self, figure: Interval, y: float, name: str, style: Mapping[str, Any]) -> None:
        """Plots a figure as a mark at height `y`, and its interval as a line; name: its note's."""
        if figure.low is not None and figure.high is not None:
            ends = [figure.low, figure.high]
            self.axes.plot(ends, [y, y], color=style["color"], linewidth=1.6)
        self.axes.plot([figure.value], [y], linestyle="none", **style)
        self.note(figure.value, y, name, figure)

    def height(self, inches: float) -> None:
        """Sets the figure's height; call it before `finish`, which adds room for the legend."""
        cast(Figure, self.axes.get_figure(root=True)).set_figheight(inches)

    def finish(self, x: str, y: str = "", *, counts: bool = False, from_0: bool = False) -> None:
        """Adds the labels and the grid, and the legend above the axes, where it covers no data.

        x, y: the labels. counts: whether the x axis has whole numbers. from_0: whether y begins
            at 0.
        """
        self.axes.set_xlabel(x)
        self.axes.set_ylabel(y)
        if counts:
            from matplotlib.ticker import MaxNLocator

            self.axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if from_0:
            self.axes.set_ylim(bottom=0)
        self.axes.grid(alpha=0.3)
        handles, labels = self.axes.get_legend_handles_labels()
        if labels:
            figure = cast(Figure, self.axes.get_figure(root=True))
            options: Any = {"loc": "outside upper left", "frameon": False, "fontsize": 8}
            figure.legend(handles, labels, ncols=min(LEGEND_COLUMNS, len(labels)), **options)
            more = max(0, -(-len(labels) // LEGEND_COLUMNS) - LEGEND_LINES)
            figure.set_figheight(figure.get_figheight() + LEGEND_LINE * more)
