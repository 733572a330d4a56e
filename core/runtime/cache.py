"""GrowingCache: keys and values in buffers that double, so that a round does not copy them."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from outrider.runtime.growing import GrowingTensor


@final
class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values [texts, heads, tokens, dim], as views of larger blocks."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._grown = (GrowingTensor(), GrowingTensor())
        keys, values = self._grown
        self.keys, self.values = keys.append(key_states), values.append(value_states)
        return self.keys, self.values

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last -tokens_to_remove tokens, without a copy."""
        if self.is_initialized:
            for grown in self._grown:
                grown.crop(max(0, len(grown) + tokens_to_remove))
            self._show()

    def retain_rows(self, start: int, rows: Tensor) -> None:
        """Moves the tokens at `rows` to the positions from `start` on, and drops the others."""
        for grown in self._grown:
            grown.retain_rows(start, rows)
        self._show()

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keeps the texts at `indices`."""
        for grown in self._grown:
            grown.select(indices)
        self._show()

    def _show(self) -> None:
        keys, values = self._grown
        self.keys: Tensor | None = keys.content
        self.values: Tensor | None = values.content


@final
class GrowingCache(Cache):
    """A cache of growing layers, which starts empty."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=GrowingLayer)

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""
        start = int(self.get_seq_length()) - count
        layers: Any = self.layers
        indices = torch.tensor(
            [start + row for row in rows], dtype=torch.long, device=layers[0].keys.device
        )
        for layer in layers:
            layer.retain_rows(start, indices)
