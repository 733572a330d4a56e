"""Drawing: how a pen checks logits and ids, and draws from the exact distribution it records."""

import math
import operator
import warnings
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import DrafterError, shown
from outrider.contract.chance import Chance
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Drawn

NEAR = 1e-3
"""How far from 1 the sum of probabilities may be by rounding."""
PROBABILITIES = (
    "a drafter gave logits that are between 0 and 1 and sum to 1: expected logits, not"
    " probabilities; of these, probs.log() are the logits"
)


def checked_logits(logits: Float[Tensor, "vocab"], vocab_size: int) -> Float[Tensor, "vocab"]:
    """Returns a drafter's logits.

    Raises:
        DrafterError: they do not describe a distribution over the vocabulary.
    """
    if not isinstance(logits, Tensor):
        raise DrafterError(f"gave logits as {type(logits).__name__}: expected a tensor")
    if logits.is_complex() or logits.layout != torch.strided:
        raise DrafterError("gave logits that are complex or sparse: expected numbers")
    if logits.shape != (vocab_size,):
        raise DrafterError(f"gave logits of shape {tuple(logits.shape)}: expected ({vocab_size},)")
    highest = float(logits.max())
    if not math.isfinite(highest):
        raise DrafterError("gave logits with NaN, infinity or no finite entry")
    if 0 < highest <= 1 and logits.min() >= 0 and abs(float(logits.sum()) - 1) < NEAR:
        warnings.warn(PROBABILITIES, stacklevel=2)
    return logits


def checked_token(token: int, vocab_size: int) -> int:
    """Returns an id; raises `DrafterError` if it is none, or not in the vocabulary."""
    try:
        is_list = isinstance(token, Tensor) and token.ndim > 0
        index = -1 if is_list or isinstance(token, bool) else operator.index(token)
    except TypeError:
        index = -1
    if not 0 <= index < vocab_size:
        raise DrafterError(f"wrote id {shown(token)}: the vocabulary has {vocab_size} tokens")
    return index


def exact_distribution(
    sampling: Sampling, logits: Float[Tensor, "vocab"]
) -> Float[Tensor, "vocab"]:
    """Returns the distribution of `logits` under the run's sampling.

    In float64, so that the recorded distribution is the one that tokens are drawn from, to the bit.
    """
    probs = sampling.probs(logits).double()
    return probs / probs.sum()


def siblings(
    probs: Float[Tensor, "vocab"], width: int, draw: Callable[[Tensor], int], *, replacement: bool
) -> list[Drawn]:
    """Returns `width` tokens and the distribution that each was drawn from.

    Without replacement there are fewer if the distribution runs out of tokens.

    draw: draws a token from a distribution.
    """
    if replacement:
        return [(draw(probs), probs) for _ in range(width)]
    drawn: list[Drawn] = []
    mass = probs.sum()
    while len(drawn) < width and mass > 0:
        probs = probs / mass if drawn else probs
        token = draw(probs)
        drawn.append((token, probs))
        probs = probs.clone()
        probs[token] = 0
        mass = probs.sum()
    return drawn


def kept_or_redrawn(
    guess: int, q: Float[Tensor, "vocab"], probs: Float[Tensor, "vocab"], chance: Chance
) -> int:
    """Returns a token with distribution `probs`: a guess from q, as often as possible, or another.

    Leviathan et al. 2211.17192, Algorithm 1.
    """
    if chance.coins((probs[guess] / q[guess])[None])[0]:
        return guess
    rest = (probs - q).clamp(min=0)
    return chance.categorical(rest if rest.any() else probs)
