"""Windows: how far back each layer of a model sees, applied to the masks of trees and batches."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.targets.passes.tree_mask import additive_mask

SLIDING, CHUNKED = "sliding_attention", "chunked_attention"

LayerMasks = Tensor | dict[str, Tensor]
"""A mask for all layers, or one for each type of layer, as transformers' decoders take them."""


def layer_masks(model: Model, mask: Float[Tensor, "batch 1 tokens all"]) -> LayerMasks:
    """Returns a mask narrowed to the window of each type of layer.

    A mask that is passed to a decoder replaces the decoder's own, and so its windows.
    """
    config: Any = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    chunk = getattr(config, "attention_chunk_size", None)
    types = set(getattr(config, "layer_types", None) or ())
    if not types:  # all layers are alike
        types = {SLIDING if window else CHUNKED}
    narrow = {SLIDING: window, CHUNKED: chunk}
    if not any(narrow.get(layer_type) for layer_type in types):
        return mask
    sees = mask == 0
    masks = {}
    for layer_type in types:
        size = narrow.get(layer_type)
        within = in_window if layer_type == SLIDING else in_chunk
        masks[layer_type] = additive_mask(within(sees, size), mask.dtype) if size else mask
    return masks if len(masks) > 1 else masks.popitem()[1]


def in_window(sees: Bool[Tensor, "*rows all"], size: int) -> Bool[Tensor, "*rows all"]:
    """Returns what tokens see through a window: the last `size` of those that they see.

    Tokens see the whole past of their text, in order. So distances can be counted in these tokens,
    wherever in the cache they are.
    """
    backwards = sees.flip(-1).cumsum(-1, dtype=torch.int32).flip(-1)
    return sees & (backwards <= size)


def in_chunk(sees: Bool[Tensor, "*rows all"], size: int) -> Bool[Tensor, "*rows all"]:
    """Returns what tokens see of the chunk of `size` tokens that they are in."""
    positions = sees.cumsum(-1, dtype=torch.int32) - 1
    return sees & (positions // size == positions[..., -1:] // size)


def context_window(model: Model) -> int | None:
    """Returns the length of the longest text that a model takes, in tokens; None for no limit."""
    config: Any = model.config.get_text_config()
    limits = (getattr(config, "max_position_embeddings", None), longrope_window(model))
    return min((int(limit) for limit in limits if limit and limit > 0), default=None)


def longrope_window(model: Model) -> int | None:
    """Returns the original window of a model with LongRoPE, in tokens; None for any other.

    LongRoPE (2402.13753) rotates by other factors once a pass reaches beyond the original window,
    drafts included, and leaves the cache as it is. A longer text would depend on the drafts, so
    texts end there.
    """
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    limits = [
        parameters.get("original_max_position_embeddings")
        for parameters in (rope, *rope.values())  # they may be given for each type of layer
        if isinstance(parameters, dict) and parameters.get("rope_type") == "longrope"
    ]
    return min((int(limit) for limit in limits if limit), default=None)
