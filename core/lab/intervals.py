"""Intervals: the bootstrap over prompts, tests of paired differences, and Holm's correction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from outrider.errors import require

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Statistic = Callable[[Rows], Floats]
"""Takes rows of prompt indices [draws, prompts], and returns a figure for each row [draws]."""

CONFIDENCE = 0.95
DRAWS = 2000
"""Bootstrap samples."""

EXCHANGES = 10_000
"""Random exchanges of the permutation test."""


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95% interval; both ends are None if there is only one prompt."""

    value: float
    low: float | None
    high: float | None


@final
@dataclass(frozen=True)
class Bootstrap:
    """Draws prompts with replacement, the same ones for every figure of a comparison.

    Prompts are drawn rather than tokens, because the tokens of one prompt depend on each other.
    With few prompts, plain percentile intervals are too narrow. They are therefore widened by the
    t distribution and by n / (n - 1) (Hesterberg, "What teachers should know about the bootstrap",
    2015, section 5.3).

    prompts: how many there are.
    """

    prompts: int
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.prompts >= 1, "prompts", self.prompts, "at least one")

    @cached_property
    def rows(self) -> Rows:
        """Returns the indices of the prompts in each draw [draws, prompts]."""
        generator = np.random.default_rng(self.seed)
        return generator.integers(0, self.prompts, (DRAWS, self.prompts))

    def interval(self, statistic: Statistic) -> Interval | None:
        """Returns the figure over all prompts with its interval, or None if it is not finite."""
        value = float(statistic(np.arange(self.prompts)[None])[0])
        if not np.isfinite(value):
            return None
        figures = statistic(self.rows)
        figures = figures[np.isfinite(figures)]
        if self.prompts == 1 or not len(figures):
            return Interval(value, None, None)
        t = special.stdtrit(self.prompts - 1, (1 - CONFIDENCE) / 2)
        tail = special.ndtr(np.sqrt(self.prompts / (self.prompts - 1)) * t)
        low, high = np.quantile(figures, [tail, 1 - tail])
        return Interval(value, float(low), float(high))


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Statistic:
    """Returns the ratio of sums over prompts; NaN if the denominators sum to 0."""
    top, bottom = np.asarray(numerators, float), np.asarray(denominators, float)

    def statistic(rows: Rows) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            quotient: Floats = top[rows].sum(-1) / bottom[rows].sum(-1)
        return quotient

    return statistic


def median(values: Sequence[float]) -> Statistic:
    """Returns the median over prompts."""
    by_prompt = np.asarray(values, float)
    return lambda rows: np.median(by_prompt[rows], axis=-1)


def difference(one: Statistic, other: Statistic) -> Statistic:
    """Returns `one` minus `other`, over the same prompts."""
    return lambda rows: one(rows) - other(rows)


def exchange_p(
    one: tuple[Sequence[float], Sequence[float]],
    other: tuple[Sequence[float], Sequence[float]],
    seed: int = 0,
) -> float:
    """Returns the two-sided p-value for two ratios over the same prompts being equal.

    If they are equal, exchanging the two on any prompt changes nothing. This is a permutation test
    with 10,000 random exchanges (Edgington, "Randomization tests", 1980).

    one, other: the numerators and the denominators, by prompt.
    """
    numerators, denominators = (
        np.stack(pair).astype(float) for pair in zip(one, other, strict=True)
    )
    exchanged = np.random.default_rng(seed).random((EXCHANGES, numerators.shape[1])) < 0.5
    exchanged[0] = False  # the data as observed are one of the possible outcomes

    ratios = []
    for side in (0, 1):
        top = np.where(exchanged, numerators[1 - side], numerators[side]).sum(-1)
        bottom = np.where(exchanged, denominators[1 - side], denominators[side]).sum(-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios.append(top / bottom)
    gaps: Floats = np.nan_to_num(np.abs(ratios[0] - ratios[1]), nan=np.inf)
    # The slack is for rounding: exchanging equal values must not seem to make the gap smaller.
    return float((gaps >= gaps[0] - 1e-12).mean())


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
