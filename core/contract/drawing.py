"""What a pen may draw from, and write: logits and ids that are checked, and exact distributions."""

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.sampling import Sampling
from outrider.errors import DrafterError


def checked_logits(logits: Float[Tensor, "vocab"], vocab_size: int) -> Float[Tensor, "vocab"]:
    """Returns a drafter's logits.

    Raises:
        DrafterError: they do not describe a distribution over the vocabulary.
    """
    if logits.shape != (vocab_size,):
        raise DrafterError(f"gave logits of shape {tuple(logits.shape)}: expected ({vocab_size},)")
    if not torch.isfinite(logits.max()):
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

    It is in float64, so that what is recorded is what is drawn from, to every bit used.
    """
    probs = sampling.probs(logits).double()
    return probs / probs.sum()
