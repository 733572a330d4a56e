"""Inverse transform sampling: the token of a vocabulary that a number from 0 to 1 stands for."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

BLOCK = 256
"""The tokens whose probabilities are summed up together; in one block alone, one by one."""


def token_at(probs: Float[Tensor, "vocab"], share: float) -> int:
    """Returns the token whose interval holds `share` of the sum of all probabilities.

    The intervals lie side by side, in the order of the tokens, and are as wide as the
    probabilities. So a uniform share draws each token with its probability. A token of probability
    zero has an interval of width zero, and is never drawn.

    probs: on any device; summed in float64, and not necessarily to 1.
    share: from 0 up to but not including 1.

    Raises:
        ValueError: `probs` sums to zero, or holds NaN or infinity.
    """
    array = probs.detach().double().cpu().numpy()
    sums = np.add.reduceat(array, np.arange(0, len(array), BLOCK))
    total = float(sums.sum())
    if not (math.isfinite(total) and total > 0):
        raise ValueError(f"probabilities sum to {total}")
    block, rest = _interval(sums, share * total)
    first = block * BLOCK
    token, _ = _interval(array[first : first + BLOCK], rest)
    return first + token


def _interval(widths: np.ndarray[Any, Any], u: float) -> tuple[int, float]:
    """Returns which of the intervals side by side from 0 holds u, and how far into it u is.

    Rounding may lift u to the end of them all. Then it is the last one of any width.
    """
    ends = widths.cumsum()
    index = int(ends.searchsorted(min(u, math.nextafter(ends[-1], 0)), side="right"))
    return index, u - float(ends[index - 1]) if index else u
