"""A pass over new tokens, by whatever the cache that they go to asks for."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.runtime.cache import growing
from outrider.runtime.encoded import EncodedCache
from outrider.runtime.passes import Pass, plain_pass
from outrider.runtime.ranks import SpreadCache, is_sharded
from outrider.runtime.static import StaticCache, enabled

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


@torch.no_grad()
def run_pass(
    model: "PreTrainedModel",
    ids: Int[Tensor, "batch tokens"],
    cache: "Cache | StaticCache | SpreadCache | EncodedCache",
    *,
    rows: int,
    mask: Float[Tensor, "batch 1 tokens all"] | None = None,
    positions: Int[Tensor, "batch tokens"] | None = None,
    states: Collection[int] = (),
    widths: Sequence[int] | None = None,
) -> Pass:
    """Appends tokens to a cache, and returns what the model says of them.

    rows: how many of the last tokens to give logits of.
    mask, positions: where the tokens are no chain; the mask is added to attention's scores.
    states: which of the hidden states to give, as transformers numbers them.
    widths: of each text of a batch, how many of the cache's places its mask leaves at most.
    """
    if isinstance(cache, StaticCache | SpreadCache):
        return Pass(*cache.feed(ids, rows, mask, positions, states))
    if isinstance(cache, EncodedCache):
        return Pass(cache.feed(ids, rows, mask, positions), {})
    return plain_pass(
        model, ids, cache, rows=rows, mask=mask, positions=positions, states=states, widths=widths
    )


def new_cache(model: "PreTrainedModel") -> "Cache | StaticCache | SpreadCache":
    """Returns an empty cache for one text of a model, of the kind that its passes want."""
    if is_sharded(model):
        return SpreadCache(model)
    return StaticCache(model) if enabled(model) else growing()
