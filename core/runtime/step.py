"""A pass of a decoder over new tokens, by transformers' own code or by a flat one."""

import inspect
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.runtime import flat
from outrider.runtime.encoded import EncodedCache
from outrider.runtime.ranks import SpreadCache
from outrider.runtime.static import StaticCache

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


@final
@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass gives: logits of the last rows, and the states asked for, by place."""

    logits: Float[Tensor, "batch rows vocab"]
    states: dict[int, Float[Tensor, "batch tokens width"]]


@torch.no_grad()
def step(
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
    if flat.serves(model):
        return Pass(*flat.step(model, ids, cache, rows, mask, positions, states, None, widths))
    options: dict[str, Any] = {}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        options["logits_to_keep"] = rows
    if mask is not None:
        options |= {"attention_mask": mask, "position_ids": positions}
    if states:
        options["output_hidden_states"] = True
    output = model(input_ids=ids, past_key_values=cache, use_cache=True, **options)
    found = {place: output.hidden_states[place] for place in states}
    return Pass(output.logits[:, -rows:], found)
