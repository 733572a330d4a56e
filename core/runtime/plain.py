"""The plain pass: a forward pass in this process, by transformers' own code or the flat pass."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from outrider.runtime import flat
from outrider.runtime.passes import Pass, PassInput
from outrider.runtime.windows import layer_masks

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


def plain_pass(model: "PreTrainedModel", cache: "Cache", inputs: PassInput) -> Pass:
    """Appends tokens to one of transformers' caches, and returns what the model says of them."""
    if flat.is_used_for(model):
        return flat.flat_pass(model, cache, inputs)
    options: dict[str, Any] = {}
    if _takes_rows(type(model).forward):
        options["logits_to_keep"] = inputs.rows
    if inputs.mask is not None:
        masks = layer_masks(model, inputs.mask)
        options |= {"attention_mask": masks, "position_ids": inputs.positions}
    if inputs.states:
        options["output_hidden_states"] = True
    options[_cache_name(type(model).forward)] = cache
    output = model(input_ids=inputs.ids, use_cache=True, **options)
    states = {number: output.hidden_states[number] for number in inputs.states}
    return Pass(output.logits[:, -inputs.rows :], states)


@cache
def _cache_name(forward: Callable[..., Any]) -> str:
    """Returns what a model calls its cache; Mamba has a name of its own."""
    names = inspect.signature(forward).parameters
    return "cache_params" if "cache_params" in names else "past_key_values"


@cache
def _takes_rows(forward: Callable[..., Any]) -> bool:
    """Returns whether a model can be told how many rows of logits to compute."""
    return "logits_to_keep" in inspect.signature(forward).parameters
