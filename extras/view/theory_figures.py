"""The figures of Leviathan et al. (arXiv 2211.17192) that follow from their formulas."""

import math
from collections.abc import Callable
from functools import partial
from itertools import cycle

import numpy as np

from outrider import theory
from outrider.extras.view.plotting import COLOURS, Axes, Figure, as_png, drawn, finish
from outrider.theory import Values

ALPHAS = np.linspace(0, 1, 101)[:-1].tolist()
"""The alphas of a curve."""

TRACED = 24
"""How many tokens the traced text has."""


def figure(name: str, values: Values) -> Figure:
    """Returns a figure by its name, a key of `FIGURES`."""
    return drawn(lambda axes, _: FIGURES[name](axes, values), rows={})


def plot_tokens(axes: Axes, values: Values) -> None:
    """Figure 2: the expected tokens per call."""
    for gamma, colour in zip(values.gammas, cycle(COLOURS), strict=False):
        tokens = [theory.expected_tokens(alpha, gamma) for alpha in ALPHAS]
        axes.plot(ALPHAS, tokens, color=colour, label=f"gamma {gamma}")
    _finish(axes, "expected tokens per call")


def plot_optimal_gamma(axes: Axes, values: Values) -> None:
    """Figure 3: the gamma with the largest expected speedup."""
    for c, colour in zip(values.costs, cycle(COLOURS), strict=False):
        gammas = [theory.optimal_gamma(alpha, c) for alpha in ALPHAS]
        axes.step(ALPHAS, gammas, where="mid", color=colour, label=f"c {c:g}")
    _finish(axes, "gamma with the largest speedup")


def plot_speedup(axes: Axes, values: Values) -> None:
    """Figure 4: the speedup, and the factor by which the arithmetic operations grow."""
    for gamma, colour in zip(values.gammas, cycle(COLOURS), strict=False):
        speedups = [theory.walltime_improvement(alpha, gamma, values.costs[0]) for alpha in ALPHAS]
        operations = [theory.operations(alpha, gamma, values.c_hat) for alpha in ALPHAS]
        axes.plot(ALPHAS, speedups, color=colour, label=f"gamma {gamma}")
        axes.plot(ALPHAS, operations, color=colour, linestyle="--")
    _finish(axes, "speedup (lines), operations (dashes)")


def plot_trace(axes: Axes, values: Values) -> None:
    """Figure 5: the target's and the drafter's calls over time, for a text of `TRACED` tokens.

    Each text takes the expected number of rounds. The last row is plain decoding.
    """
    alpha, c = values.alphas[0], values.costs[0]
    names = []
    for row, gamma in enumerate([*values.gammas, 0]):
        rounds = math.ceil(TRACED / theory.expected_tokens(alpha, gamma))
        drafting = gamma * c
        starts = [number * (drafting + 1) for number in range(rounds)]
        drafts = [(start + step * c, c) for start in starts for step in range(gamma)]
        calls = [(start + drafting, 1.0) for start in starts]
        line = partial(axes.broken_barh, yrange=(row - 0.3, 0.6), edgecolor="white")
        line(drafts, facecolors=COLOURS[5], linewidth=0.1)
        line(calls, facecolors=COLOURS[3], linewidth=0.4)
        names.append(f"gamma {gamma}" if gamma else "plain")
    for colour, label in ((COLOURS[3], "target"), (COLOURS[5], "drafter")):
        axes.plot([], [], color=colour, linewidth=6, label=label)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(f"time of {TRACED} tokens, in target calls (alpha {alpha:g}, c {c:g})")
    finish(axes)


FIGURES: dict[str, Callable[[Axes, Values], None]] = {
    "figure2": plot_tokens,
    "figure3": plot_optimal_gamma,
    "figure4": plot_speedup,
    "figure5": plot_trace,
}
"""By name, the function that draws it."""


def as_file(name: str, values: Values) -> bytes:
    """Returns a figure as PNG."""
    return as_png(figure(name, values))


figure2, figure3, figure4, figure5 = (partial(as_file, name) for name in FIGURES)


def _finish(axes: Axes, label: str) -> None:
    axes.set_xlabel("alpha")
    axes.set_ylabel(label)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    finish(axes)
