"""A forward pass by transformers' own modules."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from outrider.base.pretrained import Cache, Model
from outrider.targets.passes.masks import block_masks, layer_masks
from outrider.targets.passes.pass_input import Pass, PassInput

CACHE_ARGUMENTS = ("cache", "cache_params", "past_key_values")
"""Names of a cache: every model's since transformers 5.24, before that Mamba's and the others'."""


def run_modules(model: Model, cache: Cache, inputs: PassInput) -> Pass:
    """Appends tokens to one of transformers' caches, and returns their logits and states."""
    forward = type(model).forward
    options: dict[str, Any] = {cache_argument(forward): cache}
    if takes(forward, "logits_to_keep"):  # 0 would keep all of them
        options["logits_to_keep"] = inputs.rows or inputs.ids.new_empty(0)
    if inputs.mask is not None:
        masks = block_masks(model, layer_masks(model, inputs.mask))
        options |= {"attention_mask": masks, "position_ids": inputs.positions}
    elif inputs.positions is not None and takes(forward, "position_ids"):
        options["position_ids"] = inputs.positions
    if inputs.states:
        options["output_hidden_states"] = True
    output = model(input_ids=inputs.ids, use_cache=True, **options)
    states = {number: output.hidden_states[number] for number in inputs.states}
    kept = output.logits.shape[1] - inputs.rows
    return Pass(output.logits[:, kept:], states)


@cache
def cache_argument(forward: Callable[..., Any]) -> str:
    """Returns the name by which the `forward` of a model or layer takes its cache."""
    for name in CACHE_ARGUMENTS:
        if takes(forward, name):
            return name
    from transformers.masking_utils import create_causal_mask

    return cache_argument(create_causal_mask)  # hands on what it is given, such as PEFT's models


@cache
def takes(forward: Callable[..., Any], name: str) -> bool:
    """Returns whether a model's forward has a parameter of this name."""
    return name in inspect.signature(forward).parameters
