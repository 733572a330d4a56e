"""Drafting on features: a small network continues the target's hidden states."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.contract.context import Context, Tokens
from outrider.contract.devices import placed
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks.feature_rows import FeatureRows
from outrider.drafters.parts.networks.layer import (
    Ids,
    KeysAndValues,
    Known,
    Sees,
    State,
    States,
)
from outrider.drafters.parts.networks.trained import TrainedDrafter, TrainedNetwork
from outrider.targets.passes.cached_model import HIDDEN
from outrider.targets.passes.masks import CachedTree

LOWEST: tuple[int, ...] = (0, 1, 2)
"""The states that random weights read; every target has them."""


def state_names(layers: Sequence[int]) -> tuple[str, ...]:
    """Returns the names of the target's hidden states above some numbers of layers.

    >>> state_names([0, 2])
    ('hidden_states.0', 'hidden_states.2')
    """
    return tuple(f"{HIDDEN}.{layer}" for layer in layers)


def default_layers(target: Target) -> tuple[int, int, int]:
    """Returns the low, middle and high states of a target that EAGLE-3 reads."""
    count = int(target.model.config.get_text_config().num_hidden_layers)
    return min(2, count - 1), count // 2, max(0, count - 3)


class FeatureNetwork(TrainedNetwork):
    """Predicts the state at the next position from the state at this one and the next token.

    reads: the names of the target's features that it reads.
    """

    reads: tuple[str, ...]

    def states(self, features: Sequence[State]) -> State:
        """Returns the input states. features: in the order of `reads`; by default the only one."""
        return features[0]

    @abstractmethod
    def forward(
        self, states: States, tokens: Ids, positions: Ids, sees: Sees, cache: KeysAndValues
    ) -> States:
        """Returns the state at each token. states, positions: those of the position before it."""

    def logits(self, states: State) -> Known:
        """Returns the logits of the known tokens after each state, by the borrowed head."""
        assert self.borrowed_head is not None, "a network with its own head computes its own logits"
        return self.borrowed_head(states)


Network = TypeVar("Network", bound=FeatureNetwork)


class FeatureDrafter(TrainedDrafter[Network]):
    """Drafts token by token, or level by level of a tree, on the target's states.

    It keeps a cache for the prefix that texts share. Keys and values that come from the network's
    own predicted states are dropped after each draft, since the target's own states replace them in
    the next one (2401.15077, section 3.1). Chains for several texts come from one pass for each
    token.
    """

    def _start(self) -> None:
        self._rows = FeatureRows(self._network, self._spread, self._programs)
        self._cache = KeysAndValues()
        self._text = Tokens([])  # the text in the cache

    @property
    def in_rows(self) -> bool:
        """Returns whether one pass drafts a token for each of several texts."""
        return super().in_rows or not self.trees

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        if self.in_rows and not self.trees and (len(pairs) > 1 or len(self._rows)):
            self._rows.draft(pairs)
        else:
            super().propose_batch(pairs)

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        reads = self._network.reads
        if not pen.open or not all(name in context.features for name in reads):
            return
        if self._programs is not None and not self.trees:
            self._rows.draft([(context, pen)])
            return
        if self._rows.grow([(context, pen)], self._shape):
            return
        features = [context.features[name] for name in reads]
        last = self._catch_up(context.tokens, features)
        base, known = self._logits(last), len(self._cache)
        cached = CachedTree(known)
        states: dict[tuple[Any, ...], Tensor] = {(): last[0, 0]}

        def next_logits(paths: Sequence[Sequence[Any]]) -> Tensor:
            if not paths[0]:
                return base
            before = torch.stack([states[tuple(path[:-1])] for path in paths])
            sees, positions = None, [len(self._cache)]
            if self.trees:
                tree = cached.add(paths)
                sees = placed(tree.sees, last.device)[None, None]
                positions = tree.positions.tolist()
            after = self._feed(before, [path[-1] for path in paths], positions, sees)
            for path, state in zip(paths, after[0], strict=True):
                states[tuple(path)] = state
            return self._logits(after)

        self._shape.grow(pen, next_logits)
        self._cache.crop(known)

    def _catch_up(self, text: Tokens, features: Sequence[Tensor]) -> Float[Tensor, "1 1 w"]:
        """Returns the state at the newest token, feeding only what the cache lacks."""
        # Each position takes its state and the token after it. The last one is always fed again,
        # since the cache holds no states.
        positions, known = len(text) - 1, self._known(text)
        self._cache.crop(known)
        self._text = Tokens([])  # an interrupted pass leaves the cache in an unknown state
        states = self._network.states([rows[known:positions] for rows in features])
        after = self._feed(states, text[known + 1 :], list(range(known, positions)), None)
        self._text = Tokens(text[:])
        return after[:, -1:]

    def _known(self, text: Tokens) -> int:
        """Returns how many positions of a text are in the cache, and need not be fed again."""
        return max(0, min(self._text.shared(text) - 1, len(self._cache), len(text) - 2))

    def _feed(
        self, states: Tensor, tokens: list[Any], positions: list[int], sees: Tensor | None
    ) -> Float[Tensor, "1 tokens w"]:
        ids, places = (placed(row, states.device)[None] for row in (tokens, positions))
        after: Tensor = self._network(states[None], ids, places, sees, self._cache)
        return after

    def _logits(self, states: Float[Tensor, "1 tokens w"]) -> Float[Tensor, "tokens vocab"]:
        return self._spread(self._network.logits(states[0]))
