"""Where the logits of a pass depend on its size: in attention, whose sums go over other keys."""

from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from outrider import Target
from outrider.runtime import flat
from outrider.runtime.passes import PassInput
from outrider.runtime.step import new_cache, run_pass

ATTENTION = flat.attention
TAIL = 16
"""Tokens that are read in passes of several sizes, behind the others."""


def _one_by_one(queries: Tensor, keys: Tensor, *rest: Any, **options: Any) -> Tensor:
    """Returns the attention of a chain, each token by itself over only the keys that it sees."""
    count, every = queries.shape[1], keys.shape[2]
    if count == 1 or count == every:
        return ATTENTION(queries, keys, *rest, **options)
    values, scale = rest
    options["folded"] = None
    rows = []
    for row, end in enumerate(range(every - count + 1, every + 1)):
        seen = keys[:, :, :end], values[:, :, :end]
        rows.append(ATTENTION(queries[:, row : row + 1], *seen, scale, **options))
    return torch.cat(rows, dim=1)


def _read(target: Target, tokens: list[int], size: int) -> Tensor:
    """Returns the logits of a text's tail, read `size` tokens at a time."""
    cache, head = new_cache(target.model), len(tokens) - TAIL
    rows = []
    for first, count in [(0, head), *((start, size) for start in range(head, len(tokens), size))]:
        ids = torch.tensor([tokens[first : first + count]])
        rows.append(run_pass(target.model, cache, PassInput(ids, count)).logits[0])
    return torch.cat(rows[1:])


def moved(target: Target, tokens: list[int]) -> list[float]:
    """Returns by how much logits move if tokens are read in passes of other sizes.

    The first is as the model runs, the second with each token's attention computed by itself. The
    model is one that the flat pass runs.
    """
    most = []
    for attention in (ATTENTION, _one_by_one):
        with patch.object(flat, "attention", attention):
            alone = _read(target, tokens, 1)
            others = [_read(target, tokens, size) for size in (2, 4, 8, 16)]
        most.append(max(float((rows - alone).abs().max()) for rows in others))
    return most
