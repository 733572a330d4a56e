"""AdaptedModel: a target's first layers with an adapter on top, and the caches of both."""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from outrider.base.pretrained import Model
from outrider.drafters.parts.networks.adapter import Adapter
from outrider.drafters.parts.networks.layer import KeysAndValues
from outrider.targets.passes.cached_model import CachedModel, RowLogits
from outrider.targets.passes.tree_mask import TreeMask


@final
class AdaptedModel:
    """Scores further tokens of a text, like a `CachedModel`.

    below: the target's layers below the adapter, without a final norm.
    """

    def __init__(self, below: Model, adapter: Adapter) -> None:
        self._cached, self._adapter = CachedModel(below), adapter
        self._own = KeysAndValues()

    @property
    def length(self) -> int:
        """Returns the number of tokens in the caches."""
        return self._cached.length

    def feed(self, tokens: Sequence[int] | Int[Tensor, "tokens"], rows: int) -> RowLogits:
        """Appends tokens to the text, and returns the logits after the last `rows` of them."""
        positions = torch.arange(self.length, self.length + len(tokens))
        return self._logits(self._cached.read(tokens), positions, None, rows)

    def feed_tree(self, tokens: Sequence[int], rows: int, tree: TreeMask) -> RowLogits:
        """Appends the tokens of a tree, and returns the logits of the last `rows` of them."""
        states = self._cached.read(tokens, tree)
        return self._logits(states, tree.positions, tree.sees.to(states.device), rows)

    @torch.no_grad()
    def _logits(
        self,
        states: Float[Tensor, "tokens width"],
        positions: Int[Tensor, "tokens"],
        sees: Bool[Tensor, "tokens all"] | None,
        rows: int,
    ) -> RowLogits:
        adapter = self._adapter
        mask = None if sees is None else sees[None, None]
        out = adapter(states[None], positions.to(states.device)[None], mask, self._own)
        return adapter.vocabulary.spread(adapter.rule(adapter.logits(out[0, -rows:])))

    def drop(self, count: int) -> None:
        """Removes the last `count` tokens from the caches."""
        self._cached.drop(count)
        self._own.crop(self.length)

    @torch.no_grad()
    def lend(self, features: Mapping[str, Tensor], first: int, last: int) -> None:
        """Appends a text's tokens from `first` to `last`, as the target has read them.

        features: the target's keys and values, and the states that the adapter reads.
        """
        self._cached.lend(features, first, last)
        if first < last:
            states = features[self._adapter.reads][first:last]
            positions = torch.arange(first, last, device=states.device)
            self._adapter.add_to_cache(states[None], positions[None], self._own)


def cached_model(
    model: Model, adapter: Adapter | None, source: Sequence[int] | None = None
) -> CachedModel | AdaptedModel:
    """Returns a model with an empty cache, and the adapter on top if there is one.

    source: the input of the model's encoder, if it has one.
    """
    if adapter is not None:
        return AdaptedModel(model, adapter)
    return CachedModel(model, (), source)
