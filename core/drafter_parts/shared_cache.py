"""Shared caches: whether a drafter can go on from the keys and values of a target."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.target import Target
from outrider.errors import ConfigError, OutriderError
from outrider.runtime.cached_model import CACHE, CachedModel


def require_readable_cache(
    model: Any, target: Target, drafter: str, logits: Callable[[Context], Float[Tensor, "1 vocab"]]
) -> None:
    """Raises `ConfigError` unless a drafter on the target's whole cache says what its model does.

    model: the target's, or its first layers.
    drafter: its name, for the message.
    logits: the drafter's, after a text whose features are the target's cache.
    """
    size, right = target.vocab_size, CachedModel(model)
    text = [size // 2, size // 3, size // 4]
    refusal = f"drafter {drafter}: {type(target.model).__name__} can't draft on a part of its cache"
    try:
        session = target.open(text[:2], frozenset({CACHE}))
        session.score(Draft())
        right.feed(text[:2], 1)
        expected = right.feed(text[2:], 1)
        drafted = logits(Context(Tokens(text), None, session.features()))
    except OutriderError:
        raise
    except Exception:  # noqa: BLE001  attention of other kinds fails in any way
        raise ConfigError(refusal) from None
    if not torch.allclose(drafted, expected, atol=0.05 * float(expected.std())):
        raise ConfigError(refusal)
