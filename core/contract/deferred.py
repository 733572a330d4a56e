"""Draws on an accelerator whose tokens are read once the draft is complete, with one wait."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, zip_longest
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.chance import located, picked
from outrider.contract.sampling import likeliest
from outrider.contract.sheet import Drawn, Sheet, check_numbers, described


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


def pick(
    sheets: Sequence[Sheet],
    rows: Sequence[Float[Tensor, "vocab"]],
    shares: Float[Tensor, "sheets"] | None = None,
) -> list[Picked]:
    """Returns a token for each sheet, drawn from its logits, without waiting for any.

    sheets: of one run. shares: what to draw with. Defaults to the next numbers of their chances.
    """
    size, sampling = sheets[0].vocab_size, sheets[0].sampling
    logits = torch.stack([described(row, size) for row in rows])  # copies, submitted later
    if sampling.greedy:
        best = likeliest(logits)[:, None]
        return [Picked(token, None, row) for token, row in zip(best, logits, strict=True)]
    probs = sampling.exact(logits)
    if shares is None:
        tokens = picked([sheet.chance for sheet in sheets], probs)
    else:
        tokens = located(probs, shares)
    return [Picked(*parts) for parts in zip(tokens[:, None], probs, logits, strict=True)]


def read(drawn: Sequence[Picked]) -> list[int]:
    """Returns the ids of tokens that were drawn on a device, with one wait.

    Raises `DrafterError` if the logits of one do not describe a distribution.
    """
    logits = torch.stack([picked.logits for picked in drawn])
    facts = facts_of(logits, torch.stack([picked.token for picked in drawn]))
    return [ids[0] for ids in ids_in(facts)]


def facts_of(logits: Float[Tensor, "*rows vocab"], tokens: Int[Tensor, "*rows drawn"]) -> list[Any]:
    """Returns what `ids_in` takes, read with one wait."""
    rows = logits.float()
    # Any id is a number that float32 can hold.
    facts = [rows.amax(-1), rows.amin(-1), rows.sum(-1), *tokens.float().unbind(-1)]
    found: list[Any] = torch.stack(facts, dim=-1).tolist()
    return found


def ids_in(facts: Sequence[Sequence[float]]) -> Iterator[list[int]]:
    """Yields the ids that were drawn from each row of logits; raises as `read` does."""
    for highest, lowest, total, *ids in facts:
        check_numbers(highest, partial(list, (lowest, total)))
        yield [int(token) for token in ids]


def pick_siblings(
    sheet: Sheet,
    logits: Float[Tensor, "nodes vocab"],
    widths: Sequence[int],
    room: int,
    *,
    replacement: bool,
) -> list[tuple[Float[Tensor, "vocab"], list[Drawn]]] | None:
    """Returns the logits of nodes and the siblings drawn from them, read with one wait.

    They are those of `Pen.branch` for one node after the other, unless a distribution runs out of
    tokens: then the rest of a draft has other numbers. None if chance is enumerated.

    room: how many tokens may be drawn; nodes that none is left for are missing.

    Raises `DrafterError` if the logits of one do not describe a distribution.
    """
    before = [0, *accumulate(widths)]
    counts = [min(width, room - used) for width, used in zip(widths, before, strict=False)]
    counts = [count for count in counts if count > 0]
    described(logits[0], sheet.vocab_size)
    logits = logits[: len(counts)].clone()
    ranks: list[tuple[Tensor, Tensor | None]] = []  # a token of each node, and its distribution
    if sheet.sampling.greedy:
        ranks = [(likeliest(logits), None)] * (max(counts) if replacement else 1)
    else:
        shares: list[list[Any]] = [[sheet.chance.share() for _ in range(it)] for it in counts]
        if None in shares[0]:
            return None
        probs = sheet.sampling.exact(logits)
        for of_rank in zip_longest(*shares, fillvalue=0.0):  # a node with fewer draws in vain
            ranks.append((located(probs, of_rank), probs))
            if not replacement:
                probs = probs.scatter(-1, ranks[-1][0].clamp(min=0)[:, None], 0)
                probs = probs / probs.sum(-1, keepdim=True)
    found: list[tuple[Tensor, list[Drawn]]] = []
    ids = ids_in(facts_of(logits, torch.stack([tokens for tokens, _ in ranks], dim=1)))
    for node, (row, own) in enumerate(zip(logits, ids, strict=True)):
        siblings: list[Drawn] = [
            (token, None if probs is None else probs[node])
            for token, (_, probs) in zip(own[: counts[node]], ranks, strict=False)
            if token >= 0
        ]
        found.append((row, siblings))
    return found
