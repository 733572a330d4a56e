"""How far rounding moves an engine's numbers, as measured, and what that may change."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import final

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.contract.sampling import Sampling
from outrider.extras.audit.client import Token

QUARTILE, TAIL = 0.3186, 1.645
"""Below so many standard deviations are a quarter and nine tenths of normal absolute values."""

BESIDE = 0.15
"""The most that rounding by the batch is taken for, in logits."""

SURE = 6.0
"""By how many standard deviations rounding is taken to move a logit at most."""

FEW, MOST = 8, 4000
"""Below so many numbers nothing is known, and so many are kept."""

LEAST = -50.0
"""Log-probabilities below this are not compared: some servers write -9999 for those of 0."""

ON_STEP, DOUBLE = 1e-4, 1e-5
"""How far single precision moves log-probabilities from the steps of logits, and any logit."""


def gaps(
    listed: Sequence[Mapping[Token, float]], others: Sequence[Mapping[Token, float]]
) -> list[float]:
    """Returns by how much two lists of log-probabilities or logits, a row a token, are apart.

    Tokens are compared with the one before in the row, since that does not depend on the others.
    """
    found = []
    for row, other in zip(listed, others, strict=False):
        both = [(it, other.get(name, LEAST)) for name, it in row.items()]
        apart = [one - two for one, two in both if min(one, two) > LEAST]
        found += [(one - two) / math.sqrt(2) for one, two in pairwise(apart)]
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
        return self._within(0.25) / QUARTILE if len(self._gaps) >= FEW else None

    @property
    def largest(self) -> float:
        """Returns that of a tenth of the gaps, as far as it is known and can be rounding."""
        return min(self._within(0.9) / TAIL, BESIDE) if len(self._gaps) >= FEW else 0.0

    def _within(self, share: float) -> float:
        return float(np.quantile(np.abs(self._gaps), share))


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
    logits: Float[Tensor, "tokens vocab"], sampling: Sampling, sd: float
) -> tuple[Bool[np.ndarray, "tokens vocab"], Bool[np.ndarray, "tokens vocab"]]:
    """Returns the tokens that are kept however numbers are rounded, and those that may be kept.

    sd: the standard deviation of what rounding adds to a logit.
    """
    scaled, vocab = logits / (sampling.temperature or 1.0), logits.shape[-1]
    gap = closed_by_rounding(sd) / (sampling.temperature or 1.0) + DOUBLE
    # No more than k, even if some are equal; and as many as an engine takes for equal.
    last, first = scaled.topk(min(sampling.top_k or vocab, vocab - 1) + 1).values[:, -2:].mT
    is_cut = 0 < sampling.top_k < vocab
    sure, maybe = (
        _nucleus(scaled.masked_fill(is_cut & (scaled < least[:, None]), -math.inf), sampling, by)
        for least, by in ((first + gap, -gap), (last - gap, gap))
    )
    dropped = scaled.masked_fill(sure, -math.inf).amax(-1, keepdim=True)
    lowest = scaled.masked_fill(~maybe, math.inf).amin(-1, keepdim=True)
    sure &= scaled >= dropped + gap
    maybe = scaled >= lowest - gap
    return sure.scatter(-1, scaled.argmax(-1, keepdim=True), True).numpy(), maybe.numpy()


def _nucleus(
    scaled: Float[Tensor, "tokens vocab"], sampling: Sampling, by: float
) -> Bool[Tensor, "tokens vocab"]:
    """Returns the tokens that top-p and min-p keep if rounding moves their edges."""
    top_p, min_p = sampling.top_p, min(sampling.min_p * math.exp(-by), 1.0)
    top_p = top_p * math.exp(by) / (1 - top_p + top_p * math.exp(by))
    return Sampling(temperature=1.0, top_p=top_p, min_p=min_p).probs(scaled) > 0
