"""By how much the logits of a pass depend on its size."""

import torch
from torch import Tensor

from outrider import Target
from outrider.targets.passes.engine import run_pass
from outrider.targets.passes.pass_input import PassInput
from outrider.targets.passes.recurrent import new_cache

TAIL = 16
"""Tokens at the end that are read in passes of several sizes."""


def _read(target: Target, tokens: list[int], size: int) -> Tensor:
    """Returns the logits of a text's tail, read `size` tokens at a time."""
    cache, head = new_cache(target.model), len(tokens) - TAIL
    rows = []
    for first, count in [(0, head), *((start, size) for start in range(head, len(tokens), size))]:
        ids = torch.tensor([tokens[first : first + count]])
        rows.append(run_pass(target.model, cache, PassInput(ids, count)).logits[0])
    return torch.cat(rows[1:])


def moved(target: Target, tokens: list[int]) -> float:
    """Returns by how much logits move if tokens are read in passes of other sizes."""
    alone = _read(target, tokens, 1)
    others = [_read(target, tokens, size) for size in (2, 4, 8, 16)]
    return max(float((rows - alone).abs().max()) for rows in others)
