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

Logits = Float[Tensor, "1 vocab"]


def require_readable_cache(
    model: Any, target: Target, drafter: str, logits: Callable[[Context], Logits]
) -> None:
    """Raises `ConfigError` unless a drafter on the target's whole cache says what its model does.

    model: the target's, or its first layers.
    drafter: its name, for the message.
    logits: the drafter's, after a text whose features are the target's cache.
    """
    if not reads_cache(target, logits, lambda text: CachedModel(model).feed(text, 1)):
        name = type(target.model).__name__
        raise ConfigError(f"drafter {drafter}: {name} can't draft on a part of its cache")


@torch.no_grad()
def reads_cache(
    target: Target,
    logits: Callable[[Context], Logits],
    expected: Callable[[Tokens], Logits],
    needs: frozenset[str] = frozenset({CACHE}),
) -> bool:
    """Returns whether a drafter on the target's cache says what it would say on a cache of its own.

    logits: the drafter's, after a text whose features are the target's.
    expected: what they should be, after a text that is read from its beginning.
    needs: the features.
    """
    size = target.vocab_size
    text = Tokens([size // 2, size // 3, size // 4])
    try:
        session = target.open(text[:2], needs)
        session.score(Draft())
        right = expected(text).float()
        drafted = logits(Context(text, None, session.features())).float()
    except OutriderError:
        raise
    except Exception:  # noqa: BLE001  attention of other kinds fails in any way
        return False
    spread = float(right[right.isfinite()].std())
    return torch.allclose(drafted, right, atol=0.05 * spread)
