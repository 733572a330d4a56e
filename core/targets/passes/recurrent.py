"""Passes of a model with recurrent states, which roll back to snapshots."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers.cache_utils import (
    Cache,
    DynamicCache,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionCacheLayerMixin,
)
from transformers.cache_utils import DynamicLayer as AttentionLayer

from outrider.base.errors import TargetError
from outrider.base.pretrained import Model
from outrider.targets.passes.engine import engine_of
from outrider.targets.passes.first_layers import replace_modules
from outrider.targets.passes.growing_cache import GrowingCache, GrowingLayer
from outrider.targets.passes.pass_input import Pass, PassCache, PassInput, cache_argument

STATEFUL = frozenset({"linear_attention", "conv", "hybrid", "hybrid_sliding"})
"""Types of layers with a recurrent state, a convolution's last inputs, or both."""

STATELESS = frozenset({"full_attention", "sliding_attention", "chunked_attention", "mlp", "moe"})
"""Types of layers that a model with states may have besides; the last two keep nothing."""

AGAIN = 16
"""The most accepted tokens that are read again along with new ones after a rollback."""

NO_MASK = "its states take each token in turn"
"""The reason for having no trees and no padding, for messages."""


def layer_types(model: Model) -> frozenset[str]:
    """Returns the types of a model's layers, where its configuration names them."""
    return frozenset(getattr(model.config.get_text_config(), "layer_types", None) or ())


def has_states(model: Model) -> bool:
    """Returns whether a model has layers with states, and no layers but those that are known."""
    types = layer_types(model)
    return bool(types & STATEFUL) and types <= STATEFUL | STATELESS


@final
@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Copies of all states after the text's first `length` tokens, which no pass changes."""

    length: int = 0
    states: Sequence[Tensor | None] = field(default_factory=list)


@final
class RecurrentCache(PassCache):
    """The states of texts of one length, beside the keys and values of attention layers.

    A state holds all tokens at once, so none can be removed. A rollback returns to a snapshot
    instead, and the next pass reads the tokens after it again, ahead of the new ones. The first
    pass after a rollback takes the snapshot, before it reads anything that a later rollback may
    remove. If too many tokens would have to be read again each time, a separate pass reads them
    first. After a rollback beyond the snapshot, the whole text is read again.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._text: Int[Tensor, "texts tokens"] | None = None
        self._begin()

    def _begin(self) -> None:
        """Forgets all states; those of the empty text are the first snapshot."""
        self._cache = _Layers(self._model)
        self._snapshot, self._outdated = _Snapshot(), False

    def get_seq_length(self) -> int:
        return 0 if self._text is None else self._text.shape[1]

    @torch.no_grad()
    def feed(self, inputs: PassInput) -> Pass:
        """Appends tokens to the texts.

        Raises `TargetError` if they come with a mask.
        """
        if inputs.mask is not None:
            name = type(self._model).__name__
            raise TargetError(f"model {name}: {NO_MASK}: expected chains, one text at a time")
        text = inputs.ids if self._text is None else torch.cat([self._text, inputs.ids], dim=1)
        if self._outdated and self._cache.length == self.get_seq_length():
            self._keep()
        passes = []
        certain = text.shape[1] - inputs.rows  # tokens without logits are never rolled back
        if certain - self._cache.length > AGAIN:
            passes.append(self._read(text[:, :certain], replace(inputs, rows=1)))
            self._keep()
        passes.append(self._read(text, inputs))
        self._text = text
        states = {
            number: torch.cat([part.states[number] for part in passes], 1)[
                :, -inputs.ids.shape[1] :
            ]
            for number in inputs.states
        }
        return Pass(passes[-1].logits, states)

    def _read(self, text: Int[Tensor, "texts tokens"], inputs: PassInput) -> Pass:
        """Reads the tokens of a text that the states lack."""
        known, length = self._cache.length, text.shape[1]
        # Bamba counts positions from 0 in each pass unless they are given.
        positions = torch.arange(known, length, device=text.device)[None]
        inputs = replace(inputs, ids=text[:, known:], positions=positions.expand(len(text), -1))
        model = _continuing(self._model)
        result = engine_of(model).run_pass(model, self._cache, inputs)
        self._cache.length = length
        return result

    def _keep(self) -> None:
        """Takes a snapshot of the states."""
        states = [_copy(kept[number]) for kept in _states(self._cache) for number in kept]
        self._snapshot, self._outdated = _Snapshot(self._cache.length, states), False

    def crop(self, count: int) -> None:
        self._outdated = True
        if self._text is None or not count:
            return
        self._text = self._text[:, :count]
        length = self.get_seq_length()
        if length < self._snapshot.length:
            self._begin()
        elif length < self._cache.length:
            self._return()

    def _return(self) -> None:
        """Returns to the snapshot."""
        if not self._snapshot.length:
            self._begin()
            return
        copies, removed = iter(self._snapshot.states), self._snapshot.length - self._cache.length
        for kept in _states(self._cache):
            for number in kept:
                kept[number] = _copy(next(copies))
        for layer in self._cache.layers:
            if isinstance(layer, GrowingLayer):
                layer.crop(removed)
            elif isinstance(layer, AttentionLayer):
                AttentionLayer.crop(layer, removed)
        self._cache.length = self._snapshot.length

    def retain_rows(self, count: int, rows: Sequence[int]) -> None:
        """Of the last `count` tokens, keeps those at `rows`, which are its first ones."""
        assert list(rows) == list(range(len(rows))), "only chains are read"
        self.crop(len(rows) - count)


@final
class _Layers(Cache):
    """transformers' cache for a model, with attention layers that drop nothing.

    length: the number of tokens read. Not every model has an attention layer that counts them.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(layers=[_growing(x) for x in DynamicCache(config=model.config).layers])
        self.length = 0

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return self.length + query_length, 0


def _growing(layer: Any) -> Any:
    """Returns a layer that drops nothing in place of one that may."""
    if isinstance(layer, LinearAttentionAndSlidingWindowAttentionLayer):
        return LinearAttentionAndFullAttentionLayer(layer.number_of_states)
    if isinstance(layer, AttentionLayer) and not isinstance(layer, LinearAttentionCacheLayerMixin):
        return GrowingLayer()  # type: ignore[no-untyped-call]
    return layer


def _states(cache: Cache) -> Iterator[dict[int, Tensor | None]]:
    """Yields the states of all layers, by their numbers."""
    for layer in cache.layers:
        if isinstance(layer, LinearAttentionCacheLayerMixin):
            yield layer.conv_states
            yield layer.recurrent_states


def _copy(state: Tensor | None) -> Tensor | None:
    return None if state is None else state.clone()


_copies: "WeakKeyDictionary[Model, Model]" = WeakKeyDictionary()


def _continuing(model: Model) -> Model:
    """Returns a model whose layers all continue from their states; it shares all tensors."""
    if model not in _copies:
        _copies[model] = replace_modules(model, _replacement)
    return _copies[model]


@final
class _SteppingMixer(nn.Module):
    """A mixer of the first Mamba (2312.00752), which reads further tokens one by one.

    transformers scans several tokens from an empty state, whatever the cache holds; only its step
    over a single token starts from the state. Mamba 2 and later scans don't have this limit.
    """

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.mixer: Any = mixer

    def forward(
        self, hidden_states: Float[Tensor, "batch tokens width"], **options: Any
    ) -> Float[Tensor, "batch tokens width"]:
        cache = options[cache_argument(type(self.mixer).forward)]
        if cache is None or not cache.has_previous_state(self.mixer.layer_idx):
            result: Tensor = self.mixer(hidden_states, **options)
            return result
        steps = [self.mixer(token, **options) for token in torch.split(hidden_states, 1, dim=1)]
        return torch.cat(steps, dim=1)


def _replacement(module: nn.Module) -> nn.Module | None:
    """Returns the replacement of a mixer of the first Mamba, None for any other module."""
    is_first = hasattr(module, "dt_proj") or hasattr(module, "dt_proj_weight")
    return _SteppingMixer(module) if is_first and hasattr(module, "conv1d") else None


def new_cache(model: Model) -> GrowingCache | PassCache:
    """Returns an empty cache for one sequence, of the kind that the model's passes need."""
    if has_states(model):
        return RecurrentCache(model)
    return engine_of(model).new_cache(model)
