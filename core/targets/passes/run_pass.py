"""Running a pass: each kind of cache has its own way to append tokens."""

import torch

from outrider.base.pretrained import Cache, Model
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.pass_input import Pass, PassCache, PassInput
from outrider.targets.passes.recurrent import RecurrentCache, has_states


@torch.no_grad()
def run_pass(model: Model, cache: Cache | PassCache, inputs: PassInput) -> Pass:
    """Appends tokens to a cache, and returns their logits and states."""
    if isinstance(cache, PassCache):
        return cache.feed(inputs)
    return engine_of(model).run_pass(model, cache, inputs)


def new_cache(model: Model) -> "GrowingCache | PassCache":
    """Returns an empty cache for one sequence, of the kind that the model's passes need."""
    if has_states(model):
        return RecurrentCache(model)
    return engine_of(model).new_cache(model)
