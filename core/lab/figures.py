"""Figures: what a comparison looks like, each small enough for a phone."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

from outrider.lab.intervals import Interval
from outrider.lab.summary import Row
from outrider.lab.table import columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#8c564b")
"""Told apart by colour-blind people too (Okabe and Ito 2008), with two more."""

MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
WIDTH, DOTS = 4.2, 200

XLABELS = {
    "alpha": "alpha (overlap of p and q), 95%",
    "alpha_rule": "acceptance under the rule, 95%",
    "alpha_tested": "alpha tested (accepted of tested), 95%",
    "speedup": "speedup over plain decoding, 95%",
}
"""The rates that are drawn with their intervals."""

Rows = Mapping[str, Sequence[Row]]
"""The rows of each run, by its label."""

Draw = Callable[["Axes", Rows], None]


def figures(rows: Rows, gammas: Mapping[str, int]) -> dict[str, bytes]:
    """Returns each figure that the runs have the data for, as PNG by name.

    gammas: the gamma of each run, by its label.
    """
    every = [row for run in rows.values() for row in run]
    drawn: dict[str, Draw] = {
        rate: partial(_dots, rate=rate)
        for rate in XLABELS
        if any(row.rates[rate] is not None for row in every)
    }
    if "alpha_rule" not in columns_of(every):
        drawn.pop("alpha_rule", None)
    if any({"tokens_at", "tokens_tested_at"} & row.depths.keys() for row in every):
        drawn["tokens_over_gamma"] = partial(_tokens, gammas=gammas)
        drawn["acceptance_by_depth"] = _depths
    if any(row.prediction for row in every):
        drawn["speedup_over_gamma"] = partial(_speedups, gammas=gammas)
        if len(set(gammas.values())) > 1:
            drawn["time_over_gamma"] = partial(_times, gammas=gammas)
        drawn["predicted_against_measured"] = _predicted
    first = next(iter(rows.values()))
    if len(_kinds(rows)) > 1 and any(any(row.categories.values()) for row in first):
        drawn["categories"] = _categories
    return {name: _png(draw, rows, _height(name, rows)) for name, draw in drawn.items()}


def _png(draw: Draw, rows: Rows, height: float) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 9}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, rows)
        file = BytesIO()
        figure.savefig(file, format="png", dpi=DOTS)
    return file.getvalue()


def _height(name: str, rows: Rows) -> float:
    lines = sum(map(len, rows.values())) if len(rows) > 1 else len(next(iter(rows.values())))
    if name in XLABELS:
        return 0.9 + 0.24 * lines
    if name == "categories":
        return 1.4 + 0.3 * len(_kinds(rows))
    return 3.4


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row.drafter for run in rows.values() for row in run))


def _style(rows: Rows, drafter: str) -> dict[str, Any]:
    place = _names(rows).index(drafter) % len(COLOURS)
    return {"color": COLOURS[place], "marker": MARKS[place], "markersize": 4.5}


def _dots(axes: "Axes", rows: Rows, rate: str) -> None:
    labels: list[str] = []
    for label, run in rows.items():
        for row in run:
            found = row.rates[rate]
            if found is not None:
                _bar(axes, found, len(labels), _style(rows, row.drafter))
                labels.append(f"{row.drafter}, {label}" if len(rows) > 1 else row.drafter)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(XLABELS[rate])
    if rate == "speedup":
        axes.axvline(1, color="#999", linewidth=0.8, zorder=0)
        axes.set_xlim(left=0)
    else:
        axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x", alpha=0.3)


def _bar(axes: "Axes", found: Interval, place: float, style: Mapping[str, Any]) -> None:
    if found.low is not None and found.high is not None:
        axes.plot([found.low, found.high], [place, place], color=style["color"], linewidth=1.6)
    axes.plot([found.value], [place], linestyle="none", **style)


def _integers(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _depths(axes: "Axes", rows: Rows) -> None:
    for label, run in rows.items():
        for row in run:
            field = "alpha_at" if "alpha_at" in row.depths else "tested_at"
            values = row.depths.get(field, ())
            if any(values):
                _line(axes, rows, label, row.drafter, range(1, len(values) + 1), values)
    axes.set_ylim(-0.02, 1.02)
    _integers(axes)
    axes.set_xlabel("depth of the draft token")
    axes.set_ylabel("accepted, given that the draft got there")
    _finish(axes)


def _tokens(axes: "Axes", rows: Rows, gammas: Mapping[str, int]) -> None:
    for label, run in rows.items():
        for row in run:
            field = "tokens_at" if "tokens_at" in row.depths else "tokens_tested_at"
            values = row.depths.get(field, ())
            if any((value or 1) > 1 for value in values):
                _line(axes, rows, label, row.drafter, range(1, len(values) + 1), values, "")
            found = row.rates["block_efficiency"]
            if found is not None and found.value > 1:
                axes.plot(
                    [gammas[label]], [found.value], linestyle="none", **_style(rows, row.drafter)
                )
    axes.set_xlabel("gamma (lines: expected; marks: decoded)")
    axes.set_ylabel("tokens a target call")
    _integers(axes)
    _finish(axes)


def _speedups(axes: "Axes", rows: Rows, gammas: Mapping[str, int]) -> None:
    for label, run in rows.items():
        for row in run:
            found, made = row.rates["speedup"], row.prediction
            if made is None or found is None:
                continue
            style = _style(rows, row.drafter)
            tokens = row.depths["tokens_tested_at"]
            expected = [
                (value or 1) / (gamma * made.cost_ratio + 1)
                for gamma, value in enumerate(tokens, start=1)
            ]
            name = row.drafter if label == next(iter(rows)) else None
            axes.plot(
                range(1, len(tokens) + 1), expected, color=style["color"], label=name, alpha=0.7
            )
            axes.plot([gammas[label]], [found.value], linestyle="none", **style)
    axes.axhline(1, color="#999", linewidth=0.8, zorder=0)
    _integers(axes)
    axes.set_xlabel("gamma (lines: tokens / (gamma c + 1); marks: measured)")
    axes.set_ylabel("speedup")
    axes.set_ylim(bottom=0)
    _finish(axes)


def _times(axes: "Axes", rows: Rows, gammas: Mapping[str, int]) -> None:
    points: dict[str, list[tuple[int, float]]] = {}
    for label, run in rows.items():
        for row in run:
            if row.seconds is not None and row.counts is not None and row.counts.drafted:
                each = 1000 * row.seconds["total"] / row.counts.rounds
                points.setdefault(row.drafter, []).append((gammas[label], each))
    for drafter, found in points.items():
        found.sort()
        axes.plot(*zip(*found, strict=True), label=drafter, linewidth=1.2, **_style(rows, drafter))
    _integers(axes)
    axes.set_xlabel("gamma")
    axes.set_ylabel("milliseconds a round, drafting included")
    axes.set_ylim(bottom=0)
    _finish(axes)


def _predicted(axes: "Axes", rows: Rows) -> None:
    top = 1.0
    for run in rows.values():
        for row in run:
            found, made = row.rates["speedup"], row.prediction
            if made is not None and found is not None:
                seen = row.drafter in axes.get_legend_handles_labels()[1]
                axes.plot(
                    [made.predicted_speedup],
                    [found.value],
                    linestyle="none",
                    label=None if seen else row.drafter,
                    **_style(rows, row.drafter),
                )
                top = max(top, made.predicted_speedup, found.value)
    axes.plot([0, top * 1.1], [0, top * 1.1], color="#999", linewidth=0.8, zorder=0)
    axes.set_xlim(0, top * 1.1)
    axes.set_ylim(0, top * 1.1)
    axes.set_xlabel("predicted speedup (Theorem 3.8)")
    axes.set_ylabel("measured speedup")
    _finish(axes)


def _kinds(rows: Rows) -> list[str]:
    return list(
        dict.fromkeys(kind for run in rows.values() for row in run for kind in row.categories)
    )


def _categories(axes: "Axes", rows: Rows) -> None:
    run = [row for row in next(iter(rows.values())) if any(row.categories.values())]
    kinds = _kinds(rows)
    table = [
        [found.value if (found := row.categories.get(kind)) else float("nan") for row in run]
        for kind in kinds
    ]
    axes.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for y, values in enumerate(table):
        for x, value in enumerate(values):
            shown = "-" if math.isnan(value) else f"{value:.2f}"
            colour = "white" if value > 0.6 else "black"
            axes.text(x, y, shown, ha="center", va="center", fontsize=7.5, color=colour)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_xticks(range(len(run)), [row.drafter for row in run], rotation=40, ha="right")
    axes.tick_params(length=0)


def _line(
    axes: "Axes",
    rows: Rows,
    label: str,
    drafter: str,
    xs: Sequence[int] | range,
    ys: Sequence[float | None],
    mark: str | None = None,
) -> None:
    style = _style(rows, drafter)
    if mark is not None:
        style["marker"] = mark
    first = label == next(iter(rows))
    styles = ("-", "--", ":", "-.")
    line = styles[list(rows).index(label) % len(styles)]
    values = [float("nan") if y is None else y for y in ys]
    axes.plot(xs, values, label=drafter if first else None, linestyle=line, linewidth=1.2, **style)


def _finish(axes: "Axes") -> None:
    axes.grid(alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        # Above the axes, where it covers no data.
        axes.figure.legend(
            handles,
            labels,
            loc="outside upper left",
            ncols=min(3, len(labels)),
            frameon=False,
            fontsize=8,
        )
