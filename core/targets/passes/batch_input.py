"""Fed: the tokens of several texts as the input of one pass, side by side or padded."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from outrider.contract.draft import Draft
from outrider.targets.passes.pass_input import Pass, PassInput
from outrider.targets.passes.tree_mask import additive_mask, tree_mask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

UNEVEN = 0.75
"""Attention runs text by text once the texts fill less than this share of the cache's width."""


@final
@dataclass(frozen=True, slots=True)
class Fed:
    """The tokens of one row in a pass: pending ones and a draft, after `known` cached ones."""

    row: int
    pending: Sequence[int]
    draft: Draft
    known: int

    @property
    def tokens(self) -> list[int]:
        """Returns the tokens of the pass."""
        return [*self.pending, *self.draft.tokens]

    def __len__(self) -> int:
        return len(self.pending) + len(self.draft)


def side_by_side(fed: Sequence[Fed], rows: int, states: Collection[int], width: int) -> PassInput:
    """Returns the input of a pass over the tokens of some texts, one text after the other.

    rows: how many of the last tokens to return logits for.
    width: how far into the cache any of the tokens sees.
    """
    total = sum(map(len, fed))
    owners = [text.row for text in fed for _ in range(len(text))]
    slots = [text.known + index for text in fed for index in range(len(text))]
    ids = torch.tensor([[token for text in fed for token in text.tokens]])
    places = torch.tensor([owners, slots])
    if all(text.draft.is_chain for text in fed):
        return PassInput(ids, rows, None, places[1:], states, places=places)
    sees = torch.zeros(total, width, dtype=torch.bool)
    positions = torch.empty_like(ids)
    start = 0
    for text in fed:
        end, last = start + len(text), text.known + len(text)
        tree = tree_mask(text.draft.parents, pending=len(text.pending), cached=text.known)
        positions[0, start:end] = tree.positions
        sees[start:end, :last] = tree.sees
        start = end
    mask = additive_mask(sees, torch.float32)[None, None]
    return PassInput(ids, rows, mask, positions, states, places=places)


def aligned(
    model: "PreTrainedModel", fed: Sequence[Fed], states: Collection[int]
) -> tuple[PassInput, tuple[Tensor, Tensor, int, int]]:
    """Returns the input of a pass over some texts, padded to the same number of tokens.

    Returns:
        The input, and what `Slots.write_to` needs.
    """
    count, ends = max(map(len, fed)), [text.known + len(text) for text in fed]
    width = max(text.known for text in fed) + count
    ids = torch.zeros(len(fed), count, dtype=torch.long)
    slots, positions = torch.zeros_like(ids), torch.zeros_like(ids)
    # Padding sees everything, so that no token sees nothing.
    sees = torch.ones(len(fed), count, width, dtype=torch.bool)
    for row, text in enumerate(fed):
        start = count - len(text)
        tree = tree_mask(text.draft.parents, pending=len(text.pending), cached=text.known)
        ids[row, start:] = torch.tensor(text.tokens)
        positions[row, start:] = tree.positions
        sees[row, start:] = False
        sees[row, start:, : ends[row]] = tree.sees
        # Padding goes after the text's end, where it is never seen and soon overwritten.
        slots[row] = (torch.arange(count) - start) % count + text.known
    mask = additive_mask(sees, model.dtype)[:, None]
    widths = ends if sum(ends) < UNEVEN * len(ends) * width else None
    rows = max(len(text.draft) for text in fed) + 1
    inputs = PassInput(ids, rows, mask, positions, states, widths).to(model.device)
    texts = torch.arange(len(fed), device=model.device)[:, None]
    return inputs, (texts, slots.to(model.device), len(fed), width)


def part_of(result: Pass, inputs: PassInput, text: Fed, end: int) -> Pass:
    """Returns the part of a pass that is about one text, whose tokens end before `end`."""
    row = text.row if inputs.places is None else 0
    batch = slice(row, row + 1)
    logits_end = end - (inputs.ids.shape[1] - inputs.rows)  # only the last rows have logits
    logits = result.logits[batch, logits_end - len(text.draft) - 1 : logits_end]
    states = {number: rows[batch, end - len(text) : end] for number, rows in result.states.items()}
    return Pass(logits, states)
