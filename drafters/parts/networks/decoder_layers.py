"""Decoder layers of trained networks, and the caches of several of them."""

from typing import final

import torch
from torch import Tensor, nn

from outrider.drafters.parts.networks.convolution import LocalConvolution
from outrider.drafters.parts.networks.layer import (
    Attention,
    FeedForward,
    KeysAndValues,
    LayerConfig,
    RMSNorm,
    layer_output,
)
from outrider.drafters.parts.networks.tensors import Ids, Sees, States


@final
class LayerCaches:
    """The keys and values of each layer for a text so far. layers: the number of layers."""

    def __init__(self, layers: int) -> None:
        self.of_layer: list[KeysAndValues] = [KeysAndValues() for _ in range(layers)]

    def __len__(self) -> int:
        """Returns the number of tokens; an interruption can leave some layers with more."""
        return min(map(len, self.of_layer))

    def crop(self, length: int) -> None:
        """Keeps the first `length` tokens."""
        for cache in self.of_layer:
            cache.crop(length)


class _Layer(nn.Module):
    """Attention and a feed-forward network, with a norm before each.

    normed: as for `Attention`.
    """

    def __init__(self, config: LayerConfig, *, normed: bool = False) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm: RMSNorm = RMSNorm(width, eps)
        self.self_attn: Attention = Attention(config, normed=normed)
        self.post_attention_layernorm: RMSNorm = RMSNorm(width, eps)
        self.mlp: FeedForward = FeedForward(config)


@final
class DecoderLayer(_Layer):
    """Adds attention and a feed-forward network to its input, as Llama's layers do."""

    def forward(self, x: States, positions: Ids, sees: Sees, cache: KeysAndValues) -> States:
        """Returns the layer's output."""
        return layer_output(
            self, self.input_layernorm(x), x, positions=positions, sees=sees, cache=cache
        )


@final
class ConvolvedLayer(_Layer):
    """A layer of DFlash2: both of its parts stand between convolutions of the block.

    block: the number of tokens in a block.
    """

    def __init__(self, config: LayerConfig, block: int) -> None:
        super().__init__(config, normed=True)
        self.attention_conv: LocalConvolution = LocalConvolution(config.hidden_size, block)
        self.mlp_conv: LocalConvolution = LocalConvolution(config.hidden_size, block)

    def forward(self, x: States, positions: Ids, sees: Sees, cache: KeysAndValues) -> States:
        """Returns the layer's output for whole blocks."""

        def attended(inputs: Tensor) -> Tensor:
            out: Tensor = self.self_attn(inputs, positions, sees, cache)
            return out

        x = x + self.attention_conv(self.input_layernorm(x), attended)
        out: Tensor = x + self.mlp_conv(self.post_attention_layernorm(x), self.mlp)
        return out


@final
class FusionLayer(_Layer):
    """A layer that attends to tokens and states side by side (EAGLE-3, 2503.01840, section 3.1).

    config: with an input of twice the hidden size.
    norm_first: whether the residual adds to the normed state, as in some speculators checkpoints.
    normed: as for `Attention`.
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
