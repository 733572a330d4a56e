"""What a model's tokens attend to, by transformers' eager attention."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.targets.passes.forward import cache_argument
from outrider.targets.passes.growing_cache import GrowingCache
from outrider.targets.passes.placement import home


@torch.no_grad()
def attention_weights(
    model: Model, cache: GrowingCache, ids: Int[Tensor, "1 tokens"]
) -> list[Float[Tensor, "1 heads tokens all"]]:
    """Appends tokens to a cache, and returns by layer how much they attend to each token.

    Returns:
        An empty list if the model does not show it.
    """
    untyped: Any = model
    before = untyped.config._attn_implementation
    untyped.set_attn_implementation("eager")  # no other returns its weights
    try:
        name = cache_argument(type(model).forward)
        output = untyped(input_ids=ids, output_attentions=True, **{name: cache})
    finally:
        untyped.set_attn_implementation(before)
    return [weights for weights in output.attentions or () if weights is not None]


def shows_attention(model: Model) -> bool:
    """Returns whether each of a model's layers shows what it attends to, tested on two tokens."""
    size = int(model.config.get_text_config().vocab_size)
    ids = torch.tensor([[size // 2, size // 3]], device=home(model))
    try:
        weights = attention_weights(model, GrowingCache(), ids)
    except Exception:  # noqa: BLE001  a model may refuse it in any way
        return False
    layers = int(model.config.get_text_config().num_hidden_layers)
    return len(weights) == layers and all(part.shape[2:] == (2, 2) for part in weights)
