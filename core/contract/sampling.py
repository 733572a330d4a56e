"""Sampling: the one function from logits to the distribution that tokens are drawn from."""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import threshold

from outrider.base.bounds import NonNegative, Seed, Share, checked
from outrider.base.errors import require
from outrider.base.expectations import AtLeast, Within
from outrider.contract.devices import wide

FEW = 512
"""The vocabulary, at most, that is sorted as a whole for top-p."""

SPREAD = math.exp(-10)
"""Candidates for top-p are at least this many times as likely as the likeliest token."""

CLEAR = 1e-6
"""How far from top-p a sum of probabilities is no matter of rounding."""

LOWEST = 1e-20
"""The lowest temperature above 0: logits divided by it stay finite in float32, up to 1e18."""


@checked("sampling")
@dataclass(frozen=True, slots=True)
class Sampling:
    """How logits become a distribution: temperature, then top-k, top-p and min-p.

    All four work as in transformers. Target and drafter use the same sampling.

    temperature: 0 is greedy: a point mass on the highest logit, the first of several equal ones.
        Other temperatures are at least 1e-20, so that no logit overflows.
    top_k: keep the k highest logits and those that tie with the last of them; 0 keeps all.
    top_p: keep the smallest set of tokens whose probability reaches top_p; 1 keeps all.
    min_p: keep tokens at least min_p times as likely as the likeliest one; 0 keeps all.
    seed: seeds every random decision, from 0 to 2**64 - 1; the same seed gives the same text. See
        `SampledChance` for how. None is a new one for each call of `outrider.generate`, and 0
        everywhere else.

    Raises `ConfigError` for a value outside its range.
    """

    temperature: NonNegative = 0.0
    top_k: Annotated[int, AtLeast(0)] = 0
    top_p: Annotated[float, Within("(0, 1]")] = 1.0
    min_p: Share = 0.0
    seed: Seed | None = None

    def __post_init__(self) -> None:
        valid = self.temperature == 0 or self.temperature >= LOWEST
        expected = f"0, or a number of at least {LOWEST}"
        require(valid, "sampling.temperature", self.temperature, expected)

    @property
    def greedy(self) -> bool:
        """Returns whether every distribution is a point mass."""
        return self.temperature == 0

    def probs(self, logits: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows vocab"]:
        """Returns the distribution that a token is drawn from, for each row of logits.

        Each row sums to one. Half-precision logits give float32, others keep their precision.
        """
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if self.greedy:
            return torch.zeros_like(logits).scatter(-1, likeliest(logits)[..., None], 1.0)
        logits = logits / self.temperature if self.temperature != 1 else logits
        if 0 < self.top_k < logits.shape[-1]:
            lowest = logits.topk(self.top_k).values[..., -1:]
            logits = logits.masked_fill(logits < lowest, float("-inf"))
        if self.top_p < 1:
            rows = logits.reshape(-1, logits.shape[-1])
            probs = _nucleus(rows, self.top_p).view(logits.shape)
        else:
            probs = logits.softmax(-1)
        if self.min_p > 0:
            probs = probs.masked_fill(probs < self.min_p * probs.amax(-1, keepdim=True), 0.0)
            probs = probs / probs.sum(-1, keepdim=True)
        return probs

    def exact(self, logits: Float[Tensor, "*rows vocab"]) -> Float[Tensor, "*rows vocab"]:
        """Returns the distribution of each row in the widest type, as a draft records it.

        So the recorded distribution is the one that the token is drawn from, to the bit.
        """
        probs = wide(self.probs(logits))
        return probs / probs.sum(-1, keepdim=True)


def likeliest(logits: Float[Tensor, "*rows vocab"]) -> Int[Tensor, "*rows"]:
    """Returns each row's token with the largest logit, the first one if there are several."""
    if logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64):
        best = logits.detach().numpy().argmax(-1)  # PyTorch takes several times as long
        return torch.as_tensor(best)
    return logits.argmax(-1)


def _nucleus(logits: Float[Tensor, "rows vocab"], top_p: float) -> Float[Tensor, "rows vocab"]:
    """Returns the distribution over the tokens that top-p keeps; the others have probability 0.

    The likeliest tokens mostly hold what stays, and sorting a large vocabulary would take longer
    than the rest of a round. A row is sorted as a whole if they don't, or if equal probabilities or
    rounding decide what stays.
    """
    if logits.shape[-1] <= FEW or logits.device.type != "cpu":
        return _sorted_nucleus(logits, top_p).softmax(-1)
    return torch.stack([_row_nucleus(row, top_p) for row in logits])


def _row_nucleus(logits: Float[Tensor, "vocab"], top_p: float) -> Float[Tensor, "vocab"]:
    probs = logits.softmax(-1)
    array = probs.detach().cpu().numpy()  # PyTorch takes several times as long for each step
    best = np.sort(array[array >= array.max() * SPREAD])[::-1]
    below = best.cumsum(dtype=np.float64)
    last = int(np.searchsorted(below, top_p))  # of those that stay
    is_clear = last < len(best) and np.abs(below - top_p).min() > CLEAR
    if not is_clear or best[last] in best[last + 1 : last + 2]:
        return _sorted_nucleus(logits, top_p).softmax(-1)
    too_low = float(np.nextafter(best[last], best.dtype.type(0)))
    kept = threshold(probs, too_low, 0.0)
    return kept / kept.sum()


def _sorted_nucleus(
    logits: Float[Tensor, "rows vocab"], top_p: float
) -> Float[Tensor, "rows vocab"]:
    ascending, order = logits.sort(dim=-1)
    cut = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
    cut[..., -1] = False  # the likeliest token stays, however small top_p is
    return logits.masked_fill(cut.scatter(-1, order, cut), float("-inf"))
