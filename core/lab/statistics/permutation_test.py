"""Exchange: the test of paired differences, and Holm's correction for many tests."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from outrider.lab.statistics.intervals import Floats, Statistic

EXACT = 13
"""Up to this many prompts, every way to exchange the two drafters is counted."""
RANDOM = 10_000
"""The random exchanges for more prompts."""


def exchange_p(one: Statistic, other: Statistic, seed: int = 0) -> float:
    """Returns the two-sided p-value of a test that two figures over the same prompts are equal.

    If they are equal, exchanging the two on any prompt changes nothing (Edgington, "Randomization
    tests", 1980). Up to 13 prompts all exchanges are counted; above, 10,000 random ones are. The
    result is never below `smallest_p`.
    """
    prompts = len(one.weights)
    if prompts <= EXACT:
        # Exchanging all prompts gives the same gap, so the last one may stay as it is.
        exchanged = (np.arange(2 ** (prompts - 1))[:, None] >> np.arange(prompts)) % 2 == 1
    else:
        exchanged = np.random.default_rng(seed).random((RANDOM, prompts)) < 0.5
        exchanged[0] = False  # the data as observed are one of the possible outcomes
    figures = _exchanged(one, other, exchanged), _exchanged(other, one, exchanged)
    gaps = np.nan_to_num(np.abs(figures[0] - figures[1]), nan=np.inf)
    # For rounding: exchanging equal values must not seem to make the gap smaller.
    slack = 1e-12 * max(abs(figures[0][0]), abs(figures[1][0]))
    return max(float((gaps >= gaps[0] - slack).mean()), smallest_p(prompts))


def smallest_p(prompts: int) -> float:
    """Returns the smallest p-value that a number of prompts allows: 2 of 2^n exchanges."""
    return 2.0 ** (1 - prompts)


def holm(ps: Sequence[float]) -> list[float]:
    """Returns the p-values of several tests, corrected for their number (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def _exchanged(one: Statistic, other: Statistic, exchanged: NDArray[np.bool_]) -> Floats:
    """Returns the figure of `one`, with some prompts taken from `other` [exchanges]."""
    columns = max(one.columns.shape[-1], other.columns.shape[-1])
    own, others = (
        np.pad(statistic.columns, ((0, 0), (0, columns - statistic.columns.shape[-1])))
        for statistic in (one, other)
    )
    return one.figure(own.sum(0) + exchanged @ (others - own))
