"""Decoder layers of trained networks, and the caches of several of them."""

from typing import final

import torch
from torch import nn

from outrider.drafters.parts.networks.layer import (
    Attention,
    FeedForward,
    Ids,
    KeysAndValues,
    LayerConfig,
    RMSNorm,
    Sees,
    States,
    layer_output,
)


@final
class LayerCaches:
    """The keys and values of each layer for a text so far.

    layers: the number of layers.
    """

    def __init__(self, layers: int) -> None:
        self.of_layer: list[KeysAndValues] = [KeysAndValues() for _ in range(layers)]

    def __len__(self) -> int:
        """Returns the number of tokens; an interruption can leave some layers with more."""
        return min(map(len, self.of_layer))

    def crop(self, length: int) -> None:
        """Keeps the first `length` tokens."""
        for cache in self.of_layer:
            cache.crop(length)


class LayerParts(nn.Module):
    """Attention and a feed-forward network, with a norm before each; a subclass joins them."""

    def __init__(self, config: LayerConfig, *, normed: bool = False) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm: RMSNorm = RMSNorm(width, eps)
        self.self_attn: Attention = Attention(config, normed=normed)
        self.post_attention_layernorm: RMSNorm = RMSNorm(width, eps)
        self.mlp: FeedForward = FeedForward(config)


@final
class DecoderLayer(LayerParts):
    """Adds attention and a feed-forward network to its input, as Llama's layers do."""

    def forward(self, x: States, positions: Ids, sees: Sees, cache: KeysAndValues) -> States:
        """Returns the layer's output."""
        return layer_output(
            self, self.input_layernorm(x), x, positions=positions, sees=sees, cache=cache
        )


@final
class FusionLayer(LayerParts):
    """A layer that attends to tokens and states side by side (EAGLE-3, 2503.01840, section 3.1).

    config: with an input of twice the hidden size.
    norm_first: whether the residual adds to the normed state, as in some speculators checkpoints.
    """

    def __init__(
        self, config: LayerConfig, *, norm_first: bool = False, normed: bool = False
    ) -> None:
        super().__init__(config, normed=normed)
        self.norm_first = norm_first
        self.hidden_norm: RMSNorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, words: States, states: States, positions: Ids, sees: Sees, cache: KeysAndValues
    ) -> States:
        """Returns the layer's output. words: the embeddings of the tokens."""
        normed = self.hidden_norm(states)
        x = torch.cat([self.input_layernorm(words), normed], dim=-1)
        residual = normed if self.norm_first else states
        return layer_output(self, x, residual, positions=positions, sees=sees, cache=cache)
