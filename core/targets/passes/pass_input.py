"""The input and output of a forward pass over new tokens, and caches that run their own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.devices import placed

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
    widths: for each text of a batch, how far into the cache its tokens see; attention then runs
        text by text. By default all see as far as the mask reaches.
    """

    ids: Int[Tensor, "batch tokens"]
    rows: int
    mask: Float[Tensor, "batch 1 tokens all"] | None = None
    positions: Int[Tensor, "batch tokens"] | None = None
    states: Collection[int] = ()
    widths: Sequence[int] | None = None

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
    """What a pass returns: the logits of the last rows, and the requested states by number."""

    logits: Float[Tensor, "batch rows vocab"]
    states: dict[int, Float[Tensor, "batch tokens width"]]


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
