"""Draws on an accelerator whose tokens are read once the draft is complete, with one wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.chance import picked
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


def pick(sheets: Sequence[Sheet], rows: Sequence[Float[Tensor, "vocab"]]) -> list[Picked]:
    """Returns a token for each sheet, drawn from its logits, without waiting for any.

    sheets: of one run.
    """
    size, sampling = sheets[0].vocab_size, sheets[0].sampling
    logits = torch.stack([described(row, size) for row in rows])  # copies, submitted later
    if sampling.greedy:
        best = likeliest(logits)[:, None]
        return [Picked(token, None, row) for token, row in zip(best, logits, strict=True)]
    probs = sampling.exact(logits)
    tokens = picked([sheet.chance for sheet in sheets], probs)[:, None]
    return [Picked(*parts) for parts in zip(tokens, probs, logits, strict=True)]


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
