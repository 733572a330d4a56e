"""Draws on an accelerator whose tokens are read once the draft is complete, with one wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.sampling import likeliest
from outrider.contract.sheet import Sheet, check_numbers, described


@final
@dataclass(frozen=True, slots=True)
class Picked:
    """A token that is drawn on a device, and not read yet; None for the probs of an argmax."""

    token: Int[Tensor, "1"]
    probs: Float[Tensor, "vocab"] | None
    logits: Float[Tensor, "vocab"]


def can_defer_reads(sheet: Sheet, logits: Float[Tensor, "vocab"]) -> bool:
    """Returns whether tokens can stay on the device until the draft is complete."""
    is_far = isinstance(logits, Tensor) and logits.device.type != "cpu"
    return is_far and not sheet.looks_at_tokens


def pick(sheet: Sheet, logits: Float[Tensor, "vocab"]) -> Picked:
    """Returns a token drawn from the distribution of logits, without waiting for it."""
    logits = described(logits, sheet.vocab_size).clone()  # it is submitted later
    if sheet.sampling.greedy:
        return Picked(likeliest(logits)[None], None, logits)
    probs = sheet.sampling.exact(logits)
    return Picked(sheet.chance.pick(probs), probs, logits)


def read(drawn: Sequence[Picked]) -> list[int]:
    """Returns the ids of tokens that were drawn on a device, with one wait.

    Raises `DrafterError` if the logits of one do not describe a distribution.
    """
    rows = torch.stack([picked.logits.float() for picked in drawn])
    tokens = torch.cat([picked.token for picked in drawn])
    # Any id is a number that float32 can hold.
    facts = torch.stack([tokens.float(), rows.amax(-1), rows.amin(-1), rows.sum(-1)], dim=1)
    ids = []
    for token, highest, lowest, total in facts.tolist():
        check_numbers(highest, partial(list, (lowest, total)))
        ids.append(int(token))
    return ids
