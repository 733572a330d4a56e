"""How far rounding moves an engine's numbers, as measured, and what that may change."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import final

import numpy as np
from jaxtyping import Bool, Float

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Token

QUARTILE = 0.3186
"""Below this many standard deviations is a quarter of a normal distribution's absolute values."""

TAIL = 1.645
"""And below this many are nine tenths."""

BESIDE = 0.15
"""The most that rounding by the batch is taken for, in logits."""

SURE = 6.0
"""By how many standard deviations rounding is taken to move a logit at most."""

FEW = 8
"""Below this many numbers nothing is known."""

MOST = 4000
"""How many numbers are kept."""

LEAST = -50.0
"""Log-probabilities below this are not compared: some servers write -9999 for those of 0."""

ON_STEP = 1e-4
"""How far log-probabilities of single precision may be from the steps of their logits."""

DOUBLE = 1e-5
"""What single precision changes of a logit, in any case."""


def gaps(
    listed: Sequence[Mapping[Token, float]], others: Sequence[Mapping[Token, float]]
) -> list[float]:
    """Returns by how much two lists of log-probabilities or logits, a row a token, are apart.

    Tokens are compared with the one before in the row, since that does not depend on the others.
    """
    found = []
    for row, other in zip(listed, others, strict=False):
        names = [
            name for name, it in row.items() if it > LEAST and other.get(name, -math.inf) > LEAST
        ]
        for one, two in pairwise(names):
            found.append((row[one] - row[two] - other[one] + other[two]) / math.sqrt(2))
    return found


@final
class Rounding:
    """Gaps of logits, and the standard deviation of what rounding adds to a logit."""

    def __init__(self) -> None:
        self._gaps: list[float] = []

    def see(self, gaps: Sequence[float]) -> None:
        self._gaps += gaps[: MOST - len(self._gaps)]

    @property
    def sd(self) -> float | None:
        """Returns the standard deviation, or None if it isn't known.

        A fault that has others at three positions of four, such as those of a drafter, is not taken
        for rounding.
        """
        known = len(self._gaps) >= FEW
        return float(np.quantile(np.abs(self._gaps), 0.25)) / QUARTILE if known else None

    @property
    def largest(self) -> float:
        """Returns that of a tenth of the gaps, as far as it is known and can be rounding."""
        known = len(self._gaps) >= FEW
        return min(float(np.quantile(np.abs(self._gaps), 0.9)) / TAIL, BESIDE) if known else 0.0


def step_of(logits: Sequence[float]) -> float:
    """Returns the step, a power of 2 from 1/32 to 1, in which some logits stand; 0 for none.

    logits: of one position, up to a number that all have in common, as log-probabilities are.
    """
    apart = np.abs(np.diff(np.sort([each for each in logits if each > LEAST])))
    for step in (2.0**-power for power in range(6)):
        if len(apart) and np.all(np.abs(apart - step * np.round(apart / step)) < ON_STEP):
            return step
    return 0.0


def closed_by_rounding(sd: float) -> float:
    """Returns the gap of two logits that rounding may close."""
    return SURE * math.sqrt(2) * sd


def kept(
    logits: Float[np.ndarray, "vocab"], sampling: Sampling, sd: float
) -> tuple[Bool[np.ndarray, "vocab"], Bool[np.ndarray, "vocab"]]:
    """Returns the tokens that are kept however numbers are rounded, and those that may be kept.

    sd: the standard deviation of what rounding adds to a logit.
    """
    scaled = logits / (sampling.temperature or 1.0)
    moved = SURE * sd / (sampling.temperature or 1.0) + DOUBLE
    order = np.argsort(-scaled, kind="stable")
    down = scaled[order]
    gap = math.sqrt(2) * moved
    least = math.log(sampling.min_p) if sampling.min_p else -math.inf
    sure, maybe = down - down[0] >= least + gap, down - down[0] >= least - gap
    above = np.searchsorted(-down, -(down + gap))  # how many are above a token in any case
    most_above = np.searchsorted(-down, -(down - gap), side="right") - 1  # and at most
    probs = np.exp(down - down[0])
    of_sure = of_maybe = np.ones_like(sure)
    if 0 < sampling.top_k < len(down):
        of_sure, of_maybe = most_above < sampling.top_k, above < sampling.top_k
        of_sure[0] = True
        sure, maybe = sure & of_sure, maybe & of_maybe
    if sampling.top_p < 1:
        edge = math.log(sampling.top_p / (1 - sampling.top_p))
        before = np.concatenate([[0.0], (probs * of_maybe).cumsum()])
        maybe &= _log_odds(before[above], before[-1]) - moved < edge
        others = before[most_above + 1] - probs
        sure &= _log_odds(others, (probs * of_sure).sum()) + moved < edge
    found = np.zeros((2, len(logits)), bool)
    found[:, order] = sure, maybe
    found[:, order[0]] = True
    return found[0], found[1]


def _log_odds(parts: Float[np.ndarray, "vocab"], whole: float) -> Float[np.ndarray, "vocab"]:
    with np.errstate(divide="ignore"):
        shares = np.clip(parts / whole, 0, 1)
        return np.asarray(np.log(shares) - np.log1p(-shares))
