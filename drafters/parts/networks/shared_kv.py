"""Drafts with a shared key-value cache: they continue from the target's keys and values."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.contract.context import Context
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.adapted_model import cached_model
from outrider.drafters.parts.networks.adapter import Adapter
from outrider.drafters.parts.networks.cached_text import CachedText, fit
from outrider.drafters.parts.networks.shared_cache import reads_cache
from outrider.drafters.parts.trees.shapes import Shape
from outrider.targets.passes.cached_model import CACHE
from outrider.targets.passes.tree_mask import TreeMask
from outrider.targets.passes.windows import context_window

TOGETHER = 64
"""The most drafts in one pass: in a larger one, their logits could differ in the last bits."""


@final
class SharedKVDrafting:
    """Drafts with a model that continues from its target's keys and values.

    model: the target's layers or the first of them, with weights of any precision.
    shape: the shape of the drafts.
    adapter: a network on top of the model's last layer, in place of its head.
    """

    def __init__(
        self, model: Model, vocab_size: int, shape: Shape, adapter: Adapter | None = None
    ) -> None:
        self._model, self._vocab_size = model, vocab_size
        self._shape, self._adapter = shape, adapter
        self._window = context_window(model)
        self._text = CachedText(model, vocab_size, adapter)

    def fresh(self) -> "SharedKVDrafting":
        """Returns the same model before its first text."""
        return SharedKVDrafting(self._model, self._vocab_size, self._shape, self._adapter)

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes a draft for each pair; chains that continue one text share their passes."""
        pairs = [pair for pair in pairs if self._may_draft(*pair)]
        for first in range(0, len(pairs), TOGETHER):
            group = pairs[first : first + TOGETHER]
            is_chain = self._shape.kind == "chain"
            if len(group) > 1 and is_chain and share_one_text([context for context, _ in group]):
                self._draft_together(group)
                continue
            for context, pen in group:
                base = self._text.follow_shared(context.tokens, context.features)
                self._text.grow(self._shape, pen, base)

    def _may_draft(self, context: Context, pen: Pen) -> bool:
        """Limits a draft to what the model can read, and returns whether it can begin."""
        if self._window is not None:
            pen.limit(max(0, self._window + 1 - len(context.tokens)))
        return pen.open and "keys.0" in context.features

    def _draft_together(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        """Writes chains that continue prefixes of one text, with one pass for each depth.

        A token sees the shared keys and values of its own prefix, and those of its own draft.

        pairs: contexts as in `share_one_text`, at most `TOGETHER` of them.
        """
        texts = [context.tokens for context, _ in pairs]
        pens = [pen for _, pen in pairs]
        newest = [text[-1] for text in texts]
        known = max(map(len, texts)) - 1
        cached = cached_model(self._model, self._adapter)
        cached.lend(max(pairs, key=lambda pair: len(pair[0].tokens))[0].features, 0, known)
        lengths = torch.tensor([len(text) - 1 for text in texts])
        sees = torch.arange(known) < lengths[:, None]
        depth, active = 0, [row for row, pen in enumerate(pens) if pen.open]
        while active:
            sees_itself = torch.zeros(len(pairs), len(active), dtype=torch.bool)
            sees_itself[active, range(len(active))] = True
            sees = torch.cat([sees, sees_itself], dim=1)
            tree = TreeMask(sees[active], lengths[active] + depth)
            logits = cached.feed_tree([newest[row] for row in active], len(active), tree)
            for row, logits_of_row in zip(active, fit(logits, self._vocab_size), strict=True):
                newest[row] = pens[row].draw(logits_of_row)
            depth, active = depth + 1, [row for row in active if pens[row].open]

    def can_start(self, target: Target) -> bool:
        """Returns whether the model gives the same logits on the target's cache as on its own."""

        def on_shared(context: Context) -> Tensor:
            return self._text.fresh().follow_shared(context.tokens, context.features)

        needs = {CACHE} if self._adapter is None else {CACHE, self._adapter.reads}
        return reads_cache(target, on_shared, self._text.fresh().follow, frozenset(needs))


def share_one_text(contexts: Sequence[Context]) -> bool:
    """Returns whether all contexts are prefixes of one text that another model has read."""
    texts = [context.tokens for context in contexts]
    longest = max(texts, key=len)
    return all("keys.0" in context.features for context in contexts) and all(
        text.shared(longest) == len(text) for text in texts
    )
