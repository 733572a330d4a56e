"""Intervals: the bootstrap over prompts, paired differences, and Holm's correction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from outrider.errors import require

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Statistic = Callable[[Rows], Floats]
"""From rows of prompt indices [draws, prompts] to a figure for each row [draws]."""

CONFIDENCE = 0.95
DRAWS = 2000
FLIPS = 10_000


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and where it lies at 95%; both ends are None where one prompt is all there is."""

    value: float
    low: float | None
    high: float | None


@final
@dataclass(frozen=True)
class Bootstrap:
    """Draws prompts with replacement, the same ones for every figure of a comparison.

    A prompt's tokens depend on each other, so the prompt is what is drawn. The percentiles are
    widened by the factor that the t distribution and n / (n - 1) ask for (Hesterberg, "What
    teachers should know about the bootstrap", 2015, section 5.3), without which few prompts
    give intervals that are too narrow.
    """

    prompts: int
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.prompts >= 1, "prompts", self.prompts, "at least one")

    @cached_property
    def rows(self) -> Rows:
        """Returns the indices of the prompts of each draw."""
        generator = np.random.default_rng(self.seed)
        return generator.integers(0, self.prompts, (DRAWS, self.prompts))

    def interval(self, statistic: Statistic) -> Interval | None:
        """Returns the figure over all prompts with its interval, None where it does not exist."""
        value = float(statistic(np.arange(self.prompts)[None])[0])
        if not np.isfinite(value):
            return None
        drawn = statistic(self.rows)
        drawn = drawn[np.isfinite(drawn)]
        if self.prompts == 1 or not len(drawn):
            return Interval(value, None, None)
        t = stats.t.ppf((1 - CONFIDENCE) / 2, self.prompts - 1)
        tail = stats.norm.cdf(np.sqrt(self.prompts / (self.prompts - 1)) * t)
        low, high = np.quantile(drawn, [tail, 1 - tail])
        return Interval(value, float(low), float(high))


def ratio(above: Sequence[float], below: Sequence[float]) -> Statistic:
    """Returns the ratio of sums over prompts; NaN where the sum below is 0."""
    top, bottom = np.asarray(above, float), np.asarray(below, float)

    def statistic(rows: Rows) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            quotient: Floats = top[rows].sum(-1) / bottom[rows].sum(-1)
        return quotient

    return statistic


def median(values: Sequence[float]) -> Statistic:
    """Returns the median over prompts."""
    every = np.asarray(values, float)
    return lambda rows: np.median(every[rows], axis=-1)


def difference(one: Statistic, other: Statistic) -> Statistic:
    """Returns the one less the other, over the same prompts."""
    return lambda rows: one(rows) - other(rows)


def exchange_p(
    one: tuple[Sequence[float], Sequence[float]],
    other: tuple[Sequence[float], Sequence[float]],
    seed: int = 0,
) -> float:
    """Returns the two-sided p of two ratios over the same prompts being alike.

    If they are, exchanging the two on any prompt changes nothing: a permutation test with
    10,000 random exchanges (Edgington, "Randomization tests", 1980).

    one, other: what is above and below, by prompt.
    """
    pairs = [np.stack(two).astype(float) for two in zip(one, other, strict=True)]
    above, below = pairs
    flips = np.random.default_rng(seed).random((FLIPS, above.shape[1])) < 0.5
    flips[0] = False  # the data as they are belong to the possible outcomes

    def gap(which: NDArray[np.bool_]) -> Floats:
        sides = []
        for side in (0, 1):
            top = np.where(which, above[1 - side], above[side]).sum(-1)
            bottom = np.where(which, below[1 - side], below[side]).sum(-1)
            with np.errstate(invalid="ignore", divide="ignore"):
                sides.append(top / bottom)
        apart: Floats = np.nan_to_num(np.abs(sides[0] - sides[1]), nan=np.inf)
        return apart

    gaps = gap(flips)
    # The slack is for rounding: an exchange of equals is no smaller a gap.
    return float((gaps >= gaps[0] - 1e-12).mean())


def holm(ps: Sequence[float]) -> list[float]:
    """Returns the p of each of several tests that count together (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted
