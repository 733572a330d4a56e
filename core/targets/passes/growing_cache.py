"""Keys and values in buffers that double, so that a round does not copy them."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, final

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from outrider.contract.devices import placed
from outrider.targets.passes.growing_tensor import GrowingTensor


class BufferLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A layer whose keys and values lie in buffers that a pass can write to by itself."""

    @abstractmethod
    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Reserves space for new tokens, and returns the buffers [texts, heads, capacity, dim].

        keys, values: of the new tokens; only their shapes and precisions matter.
        """


@final
class GrowingLayer(BufferLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values [texts, heads, tokens, dim], as views of larger buffers.

    The views are made when they are asked for: a pass through the native library needs none.
    """

    @property
    def keys(self) -> Tensor | None:
        """Returns the keys, as a view that a later pass may change."""
        return self._grown[0].content if self.is_initialized else None

    @keys.setter
    def keys(self, _: Tensor | None) -> None:
        """Ignores what the base class sets before the first update."""

    @property
    def values(self) -> Tensor | None:
        """Returns the values, likewise."""
        return self._grown[1].content if self.is_initialized else None

    @values.setter
    def values(self, _: Tensor | None) -> None:
        """Ignores it likewise."""

    def get_seq_length(self) -> int:
        """Returns the number of tokens."""
        return len(self._grown[0]) if self.is_initialized else 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        self._begin(key_states, value_states)
        keys, values = self._grown
        return keys.append(key_states), values.append(value_states)

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self._begin(keys, values)
        return self._grown[0].extend(keys), self._grown[1].extend(values)

    def _begin(self, keys: Tensor, values: Tensor) -> None:
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            self._grown = (GrowingTensor(), GrowingTensor())

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last -tokens_to_remove tokens, without a copy."""
        if self.is_initialized:
            for grown in self._grown:
                grown.crop(max(0, len(grown) + tokens_to_remove))

    def retain_rows(self, start: int, rows: Tensor) -> None:
        """Moves the tokens at `rows` to the positions from `start` on, and drops the others."""
        for grown in self._grown:
            grown.retain_rows(start, rows)


@final
class GrowingCache(Cache):
    """A cache of growing layers, which starts empty."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=GrowingLayer)

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last -tokens_to_remove tokens, without a copy."""
        if tokens_to_remove:
            super().crop(tokens_to_remove)

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, in that order."""
        start = int(self.get_seq_length()) - count
        layers: Any = self.layers
        indices = placed([start + row for row in rows], layers[0].device).long()
        for layer in layers:
            layer.retain_rows(start, indices.to(layer.device))  # each may have one of its own
