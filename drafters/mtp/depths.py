"""Drafting with several layers, each of which predicts one token further than the one before."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from outrider.contract.context import Tokens
from outrider.contract.devices import placed
from outrider.contract.pen import Pen
from outrider.drafters.parts.networks.layer import KeysAndValues, States
from outrider.drafters.parts.trees.shapes import NextLogits, Shape
from outrider.targets.passes.growing_tensor import GrowingTensor


@final
class Depths:
    """What the layers have read of one text: the keys, values and states of each.

    At position i, the layer of depth k takes the state of the layer before it, the target's for the
    first, and the token at i + k + 1 (2412.19437, equations 21 to 23). So its last k rows depend on
    the draft: they are fed anew for each path, and with the text's own tokens in the next draft.

    layers: each a `FeatureNetwork`.
    """

    def __init__(self, layers: Sequence[Any]) -> None:
        self._layers = layers
        self._caches = [KeysAndValues() for _ in layers]
        self._states = [GrowingTensor() for _ in layers]
        self._text = Tokens([])

    def draft(self, pen: Pen, shape: Shape, text: Tokens, states: States, head: Any) -> None:
        """Writes a draft of at most as many tokens as there are layers.

        states: the target's, [1, tokens - 1, width]. head: maps states [1, paths, width] to logits.
        """
        pen.limit(len(self._layers))
        known = max(0, min(self._text.shared(text) - 1, len(text) - 2))
        for depth in range(len(self._layers)):
            self._crop(depth, known - depth)
        self._text = Tokens([])  # an interrupted pass leaves the caches in an unknown state
        shape.grow(pen, self._next_logits(text, states, head))
        self._text = Tokens(text[:])

    def _next_logits(self, text: Tokens, states: States, head: Any) -> NextLogits:
        count = states.shape[1]
        drafted: dict[tuple[Any, ...], Tensor] = {}  # the states of rows that depend on the draft

        def after(path: tuple[Any, ...]) -> Tensor:
            rows: Tensor
            depth = len(path)
            self._crop(depth, count - depth)
            start, before = len(self._caches[depth]), states
            if depth:
                rows = self._states[depth - 1].content[:, : max(0, count - depth + 1)]
                before = torch.cat([rows, drafted[path[:-1]]], dim=1)
            first = start + depth + 1
            tokens = [text[first:], path[max(0, first - len(text)) :]]
            rows = self._layers[depth](
                before[:, start:],
                torch.cat([placed(part, states.device) for part in tokens])[None],
                torch.arange(start, count, device=states.device)[None],
                None,
                self._caches[depth],
            )
            self._states[depth].append(rows)
            drafted[path] = self._states[depth].content[:, max(0, count - depth) :].clone()
            return rows[:, -1]

        return lambda paths: head(torch.cat([after(tuple(path)) for path in paths])[None])

    def _crop(self, depth: int, length: int) -> None:
        self._caches[depth].crop(max(0, length))
        self._states[depth].crop(len(self._caches[depth]))
