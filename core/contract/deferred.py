"""Draws on an accelerator whose tokens are read once the draft is complete, with one wait."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.chance import located, picked
from outrider.contract.sampling import Sampling, likeliest
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


def ranked(
    sampling: Sampling,
    logits: Float[Tensor, "nodes vocab"],
    shares: Sequence[Any],
    *,
    replacement: bool,
) -> list[tuple[Int[Tensor, "nodes"], Float[Tensor, "nodes vocab"] | None]]:
    """Returns a sibling after each node, and its distributions, for one rank after the other.

    At temperature 0 there is one without replacement. -1 stands for none that is left.

    shares: for each rank, what the nodes draw with.
    """
    if sampling.greedy:
        return [(likeliest(logits), None)] * (len(shares) if replacement else 1)
    probs, ranks = sampling.exact(logits), list[tuple[Tensor, Tensor | None]]()
    for of_rank in shares:
        ranks.append((located(probs, of_rank), probs))
        if not replacement:
            probs = probs.scatter(-1, ranks[-1][0].clamp(min=0)[:, None], 0)
            probs = probs / probs.sum(-1, keepdim=True)
    return ranks
