"""Whether a drafter can continue from the keys and values of a target."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import ConfigError, OutriderError
from outrider.contract.context import Context, Tokens
from outrider.contract.draft import Draft
from outrider.contract.target import Target
from outrider.targets.passes.cached_model import CACHE, CachedModel

Logits = Float[Tensor, "1 vocab"]


def require_readable_cache(
    model: Any, target: Target, drafter: str, logits: Callable[[Context], Logits]
) -> None:
    """Raises `ConfigError` unless a drafter on the target's whole cache gives its model's logits.

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
    """Returns whether a drafter gives the same logits on the target's cache as on its own.

    They may differ by rounding, up to 5% of the standard deviation of the logits.

    logits: the drafter's, after a text whose features are the target's.
    expected: what they should be, after a text that the drafter reads from its beginning.
    needs: the names of the features.
    """
    size = target.vocab_size
    text = Tokens([size // 2, size // 3, size // 4])
    try:
        session = target.open(text[:2], needs)
        session.score(Draft())
        reference = expected(text).float()
        drafted = logits(Context(text, None, session.features())).float()
    except OutriderError:
        raise
    except Exception:  # noqa: BLE001  attention of other kinds fails in any way
        return False
    deviation = float(reference[reference.isfinite()].std())
    return torch.allclose(drafted, reference, atol=0.05 * deviation)
