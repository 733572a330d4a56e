"""FeatureRows: a feature network drafts chains for several texts, or a recorded tree for one."""

from collections.abc import Callable, Hashable
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from outrider.contract.context import Context
from outrider.contract.devices import wide
from outrider.contract.pen import Pen
from outrider.contract.programs import positions_fed
from outrider.drafters.parts.networks.layer import Ids, Sees, States
from outrider.drafters.parts.networks.text_rows import TextRows
from outrider.drafters.parts.trees.shapes import Shape


@final
class FeatureRows(TextRows):
    """Drafts as a `FeatureDrafter` does for one text. Its network is a `FeatureNetwork`."""

    @torch.no_grad()
    def grow(self, context: Context, pen: Pen, shape: Shape) -> bool:
        """Writes a tree for one text by one program, and returns whether that is possible."""
        if (programs := self._programs) is None:
            return False
        features = [context.features[name] for name in self._network.reads]
        device = features[0].device

        def play(key: Hashable, grown: Any, nodes: int, shares: Tensor) -> list[Tensor]:
            self._arrange([context.tokens], device)
            fed = positions_fed(pen.gamma)
            held, given, width = self._catch_up([context.tokens], {0: features}, fed)
            buffers = self._cache.hold(width + nodes)
            size = buffers[0].shape[-2] if buffers else width + nodes
            given = [wide(shares, device), *given]

            def program(own: Tensor, *tensors: Tensor) -> Any:
                return grown(*self._program(0, size, *tensors), own)

            outputs = programs.play(key, program, given, buffers) if buffers else program(*given)
            self._texts = held
            return [each.clone() for each in outputs]

        return shape.play(pen, play)

    def _read(
        self, ids: Ids, slots: Ids, *features: States, width: int, rows: slice = slice(None)
    ) -> States:
        return self._feed(self._network.states(features), ids, slots, width, rows)

    def _program(
        self, depth: int, width: int, numbers: Int[Tensor, "texts count+3"], *features: States
    ) -> tuple[Tensor, Callable[..., Tensor]]:
        # Of nodes of a tree after one text, the rows of the last logits that they continue are
        # given.
        first, last, ids = numbers[:, :1], numbers[:, 1:2], numbers[:, 2:-1]
        slots = first + torch.arange(ids.shape[1], device=ids.device)
        states = self._read(ids, slots, *features, width=width)
        state, slot = states.take_along_dim(last[..., None], 1), first + last
        position: Tensor = slot
        sees: Sees = None

        def after(tokens: Int[Tensor, "nodes"], rows: Any = None) -> Tensor:
            nonlocal state, slot, position, sees
            position = position + 1
            if rows is None:
                slot = position
                state = self._feed(state, tokens[:, None], slot, width)
                return self._logits(state)
            places = torch.arange(width, device=tokens.device)
            path = places < position[:, None, :, None] if sees is None else sees[:, :, rows]
            slot = slot[:, -1:] + 1 + places[: len(tokens)]
            sees = path | (places == slot[:, None, :, None])
            self._cache.write_to(slice(None), slot, width)
            at = position.expand_as(slot)
            state = self._network(state[:, rows], tokens[None], at, sees, self._cache)
            return self._logits(state)

        return self._logits(state), after

    def _logits(self, states: Float[Tensor, "texts nodes w"]) -> Float[Tensor, "rows vocab"]:
        return self._spread(self._network.logits(states.flatten(0, 1)))
