"""Drawing: how a pen checks logits and ids, and draws from the exact distribution it records."""

import math
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import DrafterError
from outrider.contract.chance import Chance
from outrider.contract.sampling import Sampling
from outrider.contract.sheet import Drawn


def checked_logits(logits: Float[Tensor, "vocab"], vocab_size: int) -> Float[Tensor, "vocab"]:
    """Returns a drafter's logits.

    Raises:
        DrafterError: they do not describe a distribution over the vocabulary.
    """
    if logits.shape != (vocab_size,):
        raise DrafterError(f"gave logits of shape {tuple(logits.shape)}: expected ({vocab_size},)")
    if not math.isfinite(logits.max()):
        raise DrafterError("gave logits with NaN, infinity or no finite entry")
    return logits


def checked_token(token: int, vocab_size: int) -> int:
    """Returns an id; raises `DrafterError` if it is not in the vocabulary."""
    if not 0 <= token < vocab_size:
        raise DrafterError(f"wrote id {token}: the vocabulary has {vocab_size} tokens")
    return int(token)


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
