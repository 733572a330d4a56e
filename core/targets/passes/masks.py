"""Masks: what each new token of a pass attends to, by the tree, the windows and the attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from outrider.base.pretrained import Model
from outrider.contract.draft import ROOT

FLEX = "flex_attention"

SLIDING, CHUNKED = "sliding_attention", "chunked_attention"

LayerMasks = Tensor | dict[str, Tensor]
"""A mask for all layers, or one for each type of layer, as transformers' decoders take them."""


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


def layer_masks(model: Model, mask: Float[Tensor, "batch 1 tokens all"]) -> LayerMasks:
    """Returns a mask narrowed to the window of each type of layer.

    A mask that is passed to a decoder replaces the decoder's own, and so its windows.
    """
    config: Any = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    chunk = getattr(config, "attention_chunk_size", None)
    types = set(getattr(config, "layer_types", None) or ())
    if not types:  # all layers are alike
        types = {SLIDING if window else CHUNKED}
    narrow = {SLIDING: window, CHUNKED: chunk}
    if not any(narrow.get(layer_type) for layer_type in types):
        return mask
    sees = mask == 0
    masks = {}
    for layer_type in types:
        size = narrow.get(layer_type)
        narrowed = in_window if layer_type == SLIDING else in_chunk
        masks[layer_type] = additive_mask(narrowed(sees, size), mask.dtype) if size else mask
    return masks if len(masks) > 1 else masks.popitem()[1]


def in_window(sees: Bool[Tensor, "*rows all"], size: int) -> Bool[Tensor, "*rows all"]:
    """Returns what tokens see through a window: the last `size` of those that they see.

    Tokens see the whole past of their text, in order. So distances can be counted in these tokens,
    wherever in the cache they are.
    """
    backwards = sees.flip(-1).cumsum(-1, dtype=torch.int32).flip(-1)
    return sees & (backwards <= size)


def in_chunk(sees: Bool[Tensor, "*rows all"], size: int) -> Bool[Tensor, "*rows all"]:
    """Returns what tokens see of the chunk of `size` tokens that they are in."""
    positions = sees.cumsum(-1, dtype=torch.int32) - 1
    return sees & (positions // size == positions[..., -1:] // size)


def context_window(model: Model) -> int | None:
    """Returns the length of the longest text that a model takes, in tokens; None for no limit."""
    config: Any = model.config.get_text_config()
    limits = (getattr(config, "max_position_embeddings", None), longrope_window(model))
    return min((int(limit) for limit in limits if limit and limit > 0), default=None)


def longrope_window(model: Model) -> int | None:
    """Returns the original window of a model with LongRoPE, in tokens; None for any other.

    LongRoPE (2402.13753) rotates by other factors once a pass reaches beyond the original window,
    drafts included, and leaves the cache as it is. A longer text would depend on the drafts, so
    texts end there.
    """
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    limits = [
        parameters.get("original_max_position_embeddings")
        for parameters in (rope, *rope.values())  # they may be given for each type of layer
        if isinstance(parameters, dict) and parameters.get("rope_type") == "longrope"
    ]
    return min((int(limit) for limit in limits if limit), default=None)


def block_masks(model: Model, masks: LayerMasks) -> Any:
    """Returns a pass's masks as a model's attention takes them: as they are, unless it is flex.

    Flex attention takes a tensor to add, too, but its kernel for CPUs then writes beyond its memory
    (PyTorch 2.13).
    """
    if attention(model) != FLEX:
        return masks
    if isinstance(masks, dict):
        return {layer_type: _block_mask(mask) for layer_type, mask in masks.items()}
    return _block_mask(masks)


def attention(model: Model) -> str:
    """Returns transformers' name of a model's attention, such as sdpa."""
    return str(getattr(model.config.get_text_config(), "_attn_implementation", None))


def _block_mask(mask: Float[Tensor, "batch 1 tokens all"]) -> BlockMask:
    sees: Bool[Tensor, "batch tokens all"] = mask[:, 0] == 0

    def is_seen(text: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return sees[text, row, column]

    batch, tokens, known = sees.shape
    return create_block_mask(is_seen, batch, None, tokens, known, device=sees.device)


@final
class CachedTree:
    """The tree of a draft in a cache, after the text.

    known: the number of tokens of the text, which all nodes see.
    """

    def __init__(self, known: int) -> None:
        self._known = known
        self._parents: list[int] = []
        self._nodes: dict[tuple[int, ...], int] = {(): ROOT}

    def add(self, paths: Sequence[Sequence[int]]) -> TreeMask:
        """Adds the last token of each path, and returns its mask: it sees the text and its path.

        The tokens before it were added by earlier calls, and are in the cache in that order.
        """
        first = len(self._parents)
        self._parents += [self._nodes[tuple(path[:-1])] for path in paths]
        # Two siblings with one token have one path, and the same distribution after it.
        self._nodes |= {tuple(path): node for node, path in enumerate(paths, start=first)}
        return tree_mask(self._parents, cached=self._known, first=first)


@final
class TreeSlots:
    """Where the nodes of trees after texts go in a cache, level by level, and what they see.

    slot: that of the last token of each text that is in the cache. width: how many slots a pass
        sees.
    """

    def __init__(self, slot: Int[Tensor, "texts 1"], width: int) -> None:
        self.slots: Int[Tensor, "texts nodes"] = slot
        self._position, self._width = slot, width
        self.sees: Any = None

    @property
    def positions(self) -> Int[Tensor, "texts nodes"]:
        """Returns the positions of the newest level's nodes."""
        return self._position.expand_as(self.slots)

    def add(self, rows: Int[Tensor, "texts nodes"]) -> None:
        """Adds a level. rows: the nodes of the level above that its nodes continue."""
        places = torch.arange(self._width, device=rows.device)
        above = places <= self.slots[..., None]
        if self.sees is not None:
            above = self.sees.take_along_dim(rows[..., None], 1)
        self.slots = self.slots[:, -1:] + 1 + places[: rows.shape[1]]
        self._position = self._position + 1
        self.sees = above | (places == self.slots[..., None])
