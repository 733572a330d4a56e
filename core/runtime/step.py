"""Running a pass: each kind of cache has its own way to append tokens."""

from typing import TYPE_CHECKING

import torch

from outrider.runtime.cache import GrowingCache
from outrider.runtime.passes import Pass, PassCache, PassInput
from outrider.runtime.plain import plain_pass
from outrider.runtime.ranks import SpreadCache, is_sharded
from outrider.runtime.recurrent import RecurrentCache, has_states
from outrider.runtime.static import StaticCache, is_compiled

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


@torch.no_grad()
def run_pass(model: "PreTrainedModel", cache: "Cache | PassCache", inputs: PassInput) -> Pass:
    """Appends tokens to a cache, and returns their logits and states."""
    if isinstance(cache, PassCache):
        return cache.feed(inputs)
    return plain_pass(model, cache, inputs)


def new_cache(model: "PreTrainedModel") -> "GrowingCache | PassCache":
    """Returns an empty cache for one text, of the kind that the model's passes need."""
    if is_sharded(model):
        return SpreadCache(model)
    if has_states(model):
        return RecurrentCache(model)
    return StaticCache(model) if is_compiled(model) else GrowingCache()
