"""A forward pass over new tokens: its input and output, and how transformers' modules run it."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.base.pretrained import Cache, Model
from outrider.contract.devices import placed
from outrider.contract.draft import Verdict
from outrider.contract.judge import Judges
from outrider.targets.passes.masks import block_masks, layer_masks

CACHE_ARGUMENTS = ("cache", "cache_params", "past_key_values")
"""Names of a cache: every model's since transformers 5.24, before that Mamba's and the others'."""
PART = 256
"""The most tokens of a chain in one pass: with more, masks and activations would become large."""


@final
@dataclass(frozen=True, slots=True)
class PassInput:
    """New tokens to append to a cache, and what to return for them.

    ids: the new tokens of each text.
    rows: how many of the last tokens to return logits for; with 0, the head is skipped if possible.
    mask, positions: what is added to attention's scores, and each token's position in its text.
        Both are needed unless the tokens continue the text as a chain; a chain may have positions.
        The mask knows nothing of a model's windows.
    states: the hidden states to return, by transformers' numbers; -1 is the last.
    judges: decide on the drafts that the rows are of, for whoever can do so in the pass.
    """

    ids: Int[Tensor, "batch tokens"]
    rows: int
    mask: Float[Tensor, "batch 1 tokens all"] | None = None
    positions: Int[Tensor, "batch tokens"] | None = None
    states: Collection[int] = ()
    judges: Judges | None = None

    def to(self, device: torch.device) -> "PassInput":
        """Returns the same input on a device."""
        return replace(
            self,
            ids=placed(self.ids, device),
            mask=None if self.mask is None else placed(self.mask, device),
            positions=None if self.positions is None else placed(self.positions, device),
        )


@final
@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass returns: the logits of the last rows, and the requested states by number.

    verdicts: read those of the judges, by row, before the next pass; empty if none was decided.
    """

    logits: Float[Tensor, "batch rows vocab"]
    states: dict[int, Float[Tensor, "batch tokens width"]]
    verdicts: Sequence[Callable[[], Verdict] | None] = ()


def in_parts(inputs: PassInput, run: Callable[[PassInput], Pass]) -> Pass:
    """Returns the result of a pass over a chain that is read in parts of `PART` tokens."""
    parts, ahead = [], inputs.ids.shape[1]
    for ids in torch.split(inputs.ids, PART, dim=1):
        count = ids.shape[1]
        ahead -= count
        parts.append(run(replace(inputs, ids=ids, rows=max(0, min(count, inputs.rows - ahead)))))
    if len(parts) == 1:
        return parts[0]
    states = {
        number: torch.cat([part.states[number] for part in parts], dim=1)
        for number in inputs.states
    }
    return Pass(torch.cat([part.logits for part in parts], dim=1), states)


class PassCache(ABC):
    """A cache that runs its own passes, since they differ from those of a plain model."""

    @abstractmethod
    def feed(self, inputs: PassInput) -> Pass:
        """Appends tokens, as `outrider.targets.passes.engine.run_pass` does."""

    @abstractmethod
    def get_seq_length(self) -> int:
        """Returns the number of tokens in the cache."""

    @abstractmethod
    def crop(self, count: int) -> None:
        """Removes the last -count tokens."""

    @abstractmethod
    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""


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
