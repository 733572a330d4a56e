"""Adapter: a small network on top of a target's first layers, in place of the others."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.base.bounds import Count
from outrider.base.pretrained import Model
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.entries import Entry, Table
from outrider.drafters.parts.networks.features import state_names
from outrider.drafters.parts.networks.layer import (
    Attention,
    Ids,
    KeysAndValues,
    LayerConfig,
    RMSNorm,
    Sees,
    States,
)
from outrider.drafters.parts.networks.logits import LogitRule
from outrider.drafters.parts.networks.trained import TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.passes.cached_model import CACHE, CachedModel, NewIds, RowLogits
from outrider.targets.passes.first_layers import last_norm
from outrider.targets.passes.masks import TreeMask

TABLE: Table = {"exit_layer": Entry("layers", Count)}
"""The entry of a config that says how many of the target's layers lie below the adapter."""


@final
class Adapter(TrainedNetwork):
    """One attention layer between two norms, on top of the target's first layers.

    It is Kangaroo's (2404.18911). The head is the target's, and the last norm begins as a copy of
    the target's own.

    layers: how many of the target's layers lie below it.
    reads: the name of the target's states after these layers.
    rule: turns the head's products into logits.
    config: the sizes of its attention. Defaults to those of the target's own layers.
    """

    family = "early_exit"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        layers: int,
        config: LayerConfig | None = None,
    ) -> None:
        super().__init__()
        config = config or LayerConfig.like(target.model.config.get_text_config())
        self.vocabulary = vocabulary
        self.layers = layers
        self.reads: str = state_names([layers])[0]
        self.input_layernorm: RMSNorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn: Attention = Attention(config)
        self.norm: nn.Module = copy.deepcopy(last_norm(target.model))
        self._head = weights.BorrowedHead.of(target, vocabulary)
        self.borrowed_head: weights.BorrowedHead | None = self._head
        self.rule: LogitRule = LogitRule.of(target)

    def forward(self, states: States, positions: Ids, sees: Sees, cache: KeysAndValues) -> States:
        """Returns what the head reads for each token, and adds the tokens to the cache.

        states: those of the target after its first layers.
        """
        mixed = self.self_attn(self.input_layernorm(states), positions, sees, cache)
        out: Tensor = self.norm(states + mixed)
        return out

    def add_to_cache(self, states: States, positions: Ids, cache: KeysAndValues) -> None:
        """Adds tokens to the cache, for later ones to attend to."""
        self.self_attn.add_to_cache(self.input_layernorm(states), positions, cache)

    def logits(self, states: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch known"]:
        """Returns the head's products over the adapter's vocabulary; `rule` gives the logits."""
        return self._head(states)

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        options = speculators.read_layer(folder, target, family=cls.family, table=TABLE)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        tensors.pop("layers.0.self_attn.rotary_emb.inv_freq", None)  # of published checkpoints
        tensors = checkpoint.replace_prefixes(tensors, {"layers.0.": ""})
        return cls.with_tensors(tensors, file, target, vocabulary, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network as Kangaroo names it, in half precision."""
        names = {"norm.": "norm.", "": "layers.0."}
        tensors = checkpoint.replace_prefixes(self.state_dict(), names)
        self._write(folder, target, tensors, exit_layer=self.layers)


@final
class AdaptedModel:
    """Scores further tokens of a text, like a `CachedModel`, with an adapter on layers `below`."""

    def __init__(self, below: Model, adapter: Adapter) -> None:
        self._cached, self._adapter = CachedModel(below, {CACHE}), adapter
        self._own = KeysAndValues()

    @property
    def length(self) -> int:
        """Returns the number of tokens in the caches."""
        return self._cached.length

    @property
    def features(self) -> dict[str, Tensor]:
        """Returns the keys and values of the layers below the adapter."""
        return self._cached.features

    @torch.no_grad()
    def feed(self, tokens: NewIds, rows: int, tree: TreeMask | None = None) -> RowLogits:
        """Appends tokens, a chain or a tree; returns the logits after the last `rows` of them."""
        positions, sees = torch.arange(self.length, self.length + len(tokens)), None
        states = self._cached.read(tokens, tree)
        if tree is not None:
            positions, sees = tree.positions, tree.sees.to(states.device)[None, None]
        adapter = self._adapter
        out = adapter(states[None], positions.to(states.device)[None], sees, self._own)
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
    """Returns a model with an empty cache, and any adapter on top. source: an encoder's input."""
    if adapter is not None:
        return AdaptedModel(model, adapter)
    return CachedModel(model, {CACHE}, source)
