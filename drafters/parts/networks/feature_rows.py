"""FeatureRows: a feature network drafts for several texts, a pass for each token."""

from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.drafters.parts.networks.layer import Ids, States
from outrider.drafters.parts.networks.text_rows import TextRows
from outrider.targets.passes.masks import TreeSlots


@final
class FeatureRows(TextRows):
    """Drafts as a `FeatureDrafter` does for one text. Its network is a `FeatureNetwork`."""

    def _read(
        self, ids: Ids, slots: Ids, *features: States, width: int, rows: slice = slice(None)
    ) -> States:
        return self._feed(self._network.states(features), ids, slots, width, rows)

    def _program(
        self, depth: int, width: int, numbers: Int[Tensor, "texts count+3"], *features: States
    ) -> Any:
        first, last, ids = numbers[:, :1], numbers[:, 1:2], numbers[:, 2:-1]
        slots = first + torch.arange(ids.shape[1], device=ids.device)
        states = self._read(ids, slots, *features, width=width)
        state, slot = states.take_along_dim(last[..., None], 1), first + last
        nodes = TreeSlots(slot, width)

        def after(tokens: Ids, rows: Ids | None = None) -> Tensor:
            nonlocal state, slot
            if rows is None:
                slot = slot + 1
                state = self._feed(state, tokens, slot, width)
                return self._logits(state)
            nodes.add(rows)
            self._cache.write_to(slice(None), nodes.slots, width)
            before, sees = state.take_along_dim(rows[..., None], 1), nodes.sees[:, None]
            state = self._network(before, tokens, nodes.positions, sees, self._cache)
            return self._logits(state)

        return self._logits(state), after

    def _logits(self, states: States) -> Float[Tensor, "texts nodes vocab"]:
        return self._spread(self._network.logits(states))
