"""Passes: a decoder's forward pass over new tokens, by transformers' own code or by a flat one."""

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, final

from jaxtyping import Float, Int
from torch import Tensor

from outrider.runtime import flat

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


@final
@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass gives: logits of the last rows, and the states asked for, by place."""

    logits: Float[Tensor, "batch rows vocab"]
    states: dict[int, Float[Tensor, "batch tokens width"]]


def plain_pass(
    model: "PreTrainedModel",
    ids: Int[Tensor, "batch tokens"],
    cache: "Cache",
    *,
    rows: int,
    mask: Float[Tensor, "batch 1 tokens all"] | None = None,
    positions: Int[Tensor, "batch tokens"] | None = None,
    states: Collection[int] = (),
    widths: Sequence[int] | None = None,
) -> Pass:
    """Appends tokens to a plain cache in this process; see `outrider.runtime.step.run_pass`."""
    if flat.serves(model):
        return Pass(*flat.step(model, ids, cache, rows, mask, positions, states, None, widths))
    options: dict[str, Any] = {}
    if _takes_rows(type(model).forward):
        options["logits_to_keep"] = rows
    if mask is not None:
        options |= {"attention_mask": mask, "position_ids": positions}
    if states:
        options["output_hidden_states"] = True
    output = model(input_ids=ids, past_key_values=cache, use_cache=True, **options)
    found = {place: output.hidden_states[place] for place in states}
    return Pass(output.logits[:, -rows:], found)


@cache
def _takes_rows(forward: Callable[..., Any]) -> bool:
    """Returns whether a model's pass can be told how many rows of logits to compute."""
    return "logits_to_keep" in inspect.signature(forward).parameters
