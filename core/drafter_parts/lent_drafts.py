"""Lent drafts: chains from many places in a text, each on the keys and values before its place."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from outrider.contract.context import Context
from outrider.contract.pen import Pen
from outrider.drafter_parts.cached_text import fit
from outrider.runtime.cached_model import CachedModel
from outrider.runtime.tree_mask import TreeMask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOGETHER = 64
"""Drafts that share a pass; of more, their logits could differ in the last bits."""


def are_lent_together(contexts: Sequence[Context]) -> bool:
    """Returns whether all contexts are beginnings of one text that another model has read."""
    texts = [context.tokens for context in contexts]
    longest = max(texts, key=len)
    return all("keys.0" in context.features for context in contexts) and all(
        text.shared(longest) == len(text) for text in texts
    )


def draft_lent(
    model: "PreTrainedModel", vocab_size: int, pairs: Sequence[tuple[Context, Pen]]
) -> None:
    """Writes chains that continue beginnings of one text, with one pass for each depth.

    A token sees the keys and values of its text as they were lent, and those of its own draft.

    pairs: contexts as in `are_lent_together`, at most `TOGETHER` of them.
    """
    texts = [context.tokens for context, _ in pairs]
    pens = [pen for _, pen in pairs]
    newest = [text[-1] for text in texts]
    known = max(map(len, texts)) - 1
    cached = CachedModel(model)
    cached.lend(max(pairs, key=lambda pair: len(pair[0].tokens))[0].features, 0, known)
    lengths = torch.tensor([len(text) - 1 for text in texts])
    sees = torch.arange(known) < lengths[:, None]
    depth, going = 0, [row for row, pen in enumerate(pens) if pen.open]
    while going:
        own = torch.zeros(len(pairs), len(going), dtype=torch.bool)
        own[going, range(len(going))] = True
        sees = torch.cat([sees, own], dim=1)
        tree = TreeMask(sees[going], lengths[going] + depth)
        logits = cached.feed_tree([newest[row] for row in going], len(going), tree)
        for row, logits_of_row in zip(going, fit(logits, vocab_size), strict=True):
            newest[row] = pens[row].draw(logits_of_row)
        depth, going = depth + 1, [row for row in going if pens[row].open]
