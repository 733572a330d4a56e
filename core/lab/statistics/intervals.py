"""The 95% interval of a figure over prompts, and the prompts needed for a precision.

The unit is the prompt, because the tokens of one prompt depend on each other. A rate is a ratio of
sums over prompts. Its spread comes from the jackknife, which leaves out one prompt at a time
(Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 11).
"""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Scale = Literal["linear", "log", "logit"]
"""Where an interval is symmetric: "logit" for rates from 0 to 1, "log" for positive figures."""

TAIL = 0.025
FEWEST = 5
"""The fewest prompts that have an interval: fewer say too little about the spread."""
SKEWED = 2.0
"""By simulation (evidence/coverage.py): few prompts show less skewness than there is."""
MOST = 10_000_000
"""The largest number that `prompts_needed` returns."""


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95% interval; both ends are None where the data give none."""

    value: float
    low: float | None
    high: float | None

    @property
    def opposite(self) -> "Interval":
        """Returns the figure and its interval with the other sign."""
        if self.low is None or self.high is None:
            return Interval(-self.value, None, None)
        return Interval(-self.value, -self.high, -self.low)

    def named(self, name: str) -> dict[str, float]:
        """Returns the figure by its name, and the ends that it has as `_low` and `_high`."""
        figures = {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}
        return {key: figure for key, figure in figures.items() if figure is not None}


@final
@dataclass(frozen=True)
class Statistic:
    """A figure of sums over prompts, for one experiment or for many at once.

    columns: what is summed, by prompt [..., prompts, columns]. More columns of zeros at the end
        change nothing.
    weights: how much each prompt weighs, such as its tested tokens [..., prompts].
    figure: takes the sums [..., columns], and returns the figure [...]; NaN if there is none.
    """

    columns: Floats
    weights: Floats
    figure: Callable[[Floats], Floats]

    @property
    def value(self) -> Floats:
        """Returns the figure over all prompts [...]."""
        return self.figure(self.columns.sum(-2))

    @property
    def left_out(self) -> Floats:
        """Returns the figure without each prompt in turn [..., prompts]."""
        return self.figure(self.columns.sum(-2, keepdims=True) - self.columns)

    @property
    def effective(self) -> Floats:
        """Returns the effective number of prompts, given their weights (Kish 1965) [...]."""
        with np.errstate(invalid="ignore", divide="ignore"):
            prompts: Floats = self.weights.sum(-1) ** 2 / (self.weights**2).sum(-1)
        return prompts

    @property
    def prompts(self) -> int:
        """Returns the number of prompts that have data, of one experiment."""
        return int(np.count_nonzero(self.weights))


def ratio(numerators: ArrayLike, denominators: ArrayLike) -> Statistic:
    """Returns the ratio of sums over prompts; both arguments are by prompt [..., prompts]."""
    columns = np.stack([np.asarray(numerators, float), np.asarray(denominators, float)], -1)
    return Statistic(columns, columns[..., 1], _quotient)


def shifted(rate: Statistic, by: float) -> Statistic:
    """Returns a ratio of sums as if it were larger by a number on every prompt."""
    return ratio(rate.columns[..., 0] + by * rate.columns[..., 1], rate.columns[..., 1])


def interval(statistic: Statistic, scale: Scale) -> Interval | None:
    """Returns the figure with its interval; None if there are no data."""
    return _interval(
        statistic.value, statistic.left_out, statistic.effective, statistic.prompts, scale
    )


def difference(one: Statistic, other: Statistic) -> Interval | None:
    """Returns `one` minus `other`, over the same prompts."""
    value, left_out = one.value - other.value, one.left_out - other.left_out
    return _interval(value, left_out, *_effective(one, other), "linear")


def quotient(one: Statistic, other: Statistic) -> Interval | None:
    """Returns `one` over `other`, over the same prompts."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value, left_out = one.value / other.value, one.left_out / other.left_out
    return _interval(value, left_out, *_effective(one, other), "log")


def median(values: Sequence[float]) -> Interval | None:
    """Returns the median over prompts; two of the values are the ends (binomial distribution)."""
    if not len(values):
        return None
    value, ordered = float(np.median(values)), sorted(map(float, values))
    if len(ordered) < FEWEST:
        return Interval(value, None, None)
    from scipy import special  # here, since it is slow to import

    # The median lies below the k-th smallest value with the probability of k heads or fewer.
    heads = special.bdtr(np.arange(len(ordered)), len(ordered), 0.5)
    k = max(1, int(np.searchsorted(heads, TAIL)))
    low, high = ordered[k - 1], ordered[-k]
    return Interval(value, low, high) if low < high else Interval(value, None, None)


def ends(value: Floats, left_out: Floats, effective: Floats, scale: Scale) -> tuple[Floats, Floats]:
    """Returns both ends of the intervals of many experiments at once [...].

    value: the figures [...]. left_out: the figures without each prompt [..., prompts].
    effective: see `Statistic.effective`. Student's t has one degree of freedom less than that, so a
        few long prompts count as few.

    A positive figure has no upper bound, and few prompts seldom hold the largest values. So on the
    log scale the end on the side of the skewness reaches further, by `SKEWED` times the first-order
    term of Johnson ("Modified t tests and confidence intervals for asymmetrical populations",
    1978).
    """
    t = _t(effective - 1)
    reach = t * _error(left_out)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if scale == "linear":
            return value - reach, value + reach
        if scale == "log":
            further = SKEWED * _skewness(left_out) * (1 + 2 * t**2) / (6 * t)
            below, above = (np.clip(1 + sign * further, 1, 3) for sign in (-1, 1))
            return value * np.exp(-below * reach / value), value * np.exp(above * reach / value)
        logit, reach = np.log(value / (1 - value)), reach / (value * (1 - value))
        return 1 / (1 + np.exp(reach - logit)), 1 / (1 + np.exp(-reach - logit))


def prompts_needed(rate: Statistic, precision: float) -> int | None:
    """Returns how many prompts like these give an interval of at most +- `precision`.

    None if there are too few prompts to tell, or if it takes more than ten million.
    """
    count = rate.prompts
    error, effective = float(_error(rate.left_out)), float(rate.effective)
    if count < FEWEST or not np.isfinite(error):
        return None

    def is_enough(prompts: int) -> bool:
        share = prompts / count
        reach = _t(np.asarray(effective * share - 1)) * error / np.sqrt(share)
        return bool(reach <= precision)

    prompts = FEWEST + bisect.bisect_left(range(FEWEST, MOST), True, key=is_enough)
    return None if prompts == MOST else prompts


def _interval(
    value: Floats, left_out: Floats, effective: Floats, prompts: int, scale: Scale
) -> Interval | None:
    if not np.isfinite(value):
        return None
    if prompts >= FEWEST:
        low, high = (float(end) for end in ends(value, left_out, effective, scale))
        if np.isfinite(low) and np.isfinite(high) and low < high:
            return Interval(float(value), low, high)
    return Interval(float(value), None, None)  # all prompts agree, or one outweighs all others


def _effective(one: Statistic, other: Statistic) -> tuple[Floats, int]:
    """Returns the effective and the actual number of prompts: the smaller of the two."""
    return np.minimum(one.effective, other.effective), min(one.prompts, other.prompts)


def _quotient(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        value: Floats = sums[..., 0] / sums[..., 1]
    return value


def _error(left_out: Floats) -> Floats:
    """Returns the jackknife's standard error [...]."""
    prompts = left_out.shape[-1]
    with np.errstate(invalid="ignore"):
        error: Floats = np.sqrt((prompts - 1) * left_out.var(-1))
    return error


def _skewness(left_out: Floats) -> Floats:
    """Returns the skewness of the figure's distribution, by the jackknife [...]."""
    influence = left_out.mean(-1, keepdims=True) - left_out
    with np.errstate(invalid="ignore", divide="ignore"):
        skewness: Floats = (influence**3).sum(-1) / (influence**2).sum(-1) ** 1.5
    return np.nan_to_num(skewness)


def _t(freedom: Floats) -> Floats:
    """Returns the quantile of Student's t; NaN without any degree of freedom."""
    from scipy import special

    with np.errstate(over="ignore"):
        quantile: Floats = special.stdtrit(np.where(freedom > 0, freedom, np.nan), 1 - TAIL)
    return quantile
