"""Tree masks: which tokens each new token of a pass attends to, and its position in the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from outrider.contract.draft import ROOT


@final
@dataclass(frozen=True, slots=True)
class TreeMask:
    """What each new token of a pass attends to.

    sees: for each new token, which tokens it attends to, the cached ones first.
    positions: the position of each new token in the text.
    """

    sees: Bool[Tensor, "tokens all"]
    positions: Int[Tensor, "tokens"]


def tree_mask(
    parents: Sequence[int], *, pending: int = 0, cached: int = 0, first: int = 0
) -> TreeMask:
    """Returns the mask of a text's new tokens and of a tree after it: each sees only its own past.

    parents: the node that each node of the tree continues, parents before their children; -1 is
        the end of the text.
    pending: the number of the text's last tokens, which the pass reads ahead of the tree.
    cached: the number of the text's earlier tokens, which are in the cache.
    first: the first node to read; those before it are in the cache, after the text.
    """
    text, nodes = cached + pending, len(parents)
    tokens = pending + nodes - first
    sees = causal(tokens, text + nodes)
    positions = torch.arange(text + nodes - tokens, text + nodes)
    if tuple(parents) != tuple(range(ROOT, nodes - 1)):  # a chain just continues the text
        sees[pending:, text:], depths = _ancestors(parents, first)
        positions[pending:] = text - 1 + depths
    return TreeMask(sees, positions)


def causal(
    tokens: int, known: int, device: torch.device | None = None
) -> Bool[Tensor, "tokens known"]:
    """Returns what the last `tokens` of a chain of `known` tokens see: all up to themselves."""
    everything = torch.ones(tokens, known, dtype=torch.bool, device=device)
    return everything.tril(known - tokens)


def within(
    window: int, positions: Int[Tensor, "texts tokens"], known: int
) -> Bool[Tensor, "texts 1 tokens known"]:
    """Returns what tokens at some positions see of a chain of `known` tokens in a window.

    window: the number of tokens in the window, which ends at the token itself.
    """
    distance = positions[..., None] - torch.arange(known, device=positions.device)
    return ((distance >= 0) & (distance < window))[:, None]


def additive_mask(sees: Bool[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """Returns what is added to attention's scores: 0 for what a token sees, else the lowest number.

    That number is finite, so that the output of a token that sees nothing is not NaN.
    """
    mask = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return mask.masked_fill_(~sees, torch.finfo(dtype).min)


def _ancestors(
    parents: Sequence[int], first: int
) -> tuple[Bool[Tensor, "new nodes"], Int[Tensor, "new"]]:
    """Returns which nodes are on the path to each node from `first` on, and the path's length.

    All nodes climb at once, one level of the tree at a time.
    """
    # Column 0 stands for the root, which is its own parent and stops the climb.
    parent = torch.tensor([ROOT, *parents]) + 1
    node = torch.arange(first, len(parents)) + 1
    row = torch.arange(len(node))
    on_path = torch.zeros(len(node), len(parents) + 1, dtype=torch.bool)
    depths = torch.zeros_like(node)
    while node.any():
        on_path[row, node] = True
        depths += node > 0
        node = parent[node]
    return on_path[:, 1:], depths
