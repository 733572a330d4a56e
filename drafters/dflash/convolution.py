"""Layers of DFlash2, whose parts mix with those of the token before by local convolutions."""

import math
from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.drafters.parts.networks.decoder_layers import LayerParts
from outrider.drafters.parts.networks.layer import Ids, KeysAndValues, LayerConfig, Sees, States

TAPS = 2
"""How many tokens are mixed: each one and the one before it in the block."""

GROUP = 16
"""How many channels share a coefficient that depends on the token."""


@final
class LocalConvolution(nn.Module):
    """Causal convolutions of a block around a sublayer, as in DFlash2 of z-lab.

    The coefficient of a channel is learned, and a projection of the token's state adds to that of
    each group of channels. At first the sublayer is left as it is. The tensors are those of the
    speculators library. There is no paper.

    block: the number of tokens in a block; tokens of other blocks are not mixed.
    """

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self._block, self._group = block, math.gcd(width, GROUP)
        kernel = torch.zeros(2, TAPS, width)
        kernel[:, 0] = 1.0
        self.base_kernel: nn.Parameter = nn.Parameter(kernel)
        groups = width // self._group
        self.kernel_projection: nn.Linear = nn.Linear(width, 2 * TAPS * groups, bias=False)
        nn.init.zeros_(self.kernel_projection.weight)

    def forward(self, x: States, sublayer: Callable[[Tensor], Tensor]) -> States:
        """Returns the sublayer's output between the two convolutions. x: its input."""
        added = self.kernel_projection(x).view(*x.shape[:2], 2, TAPS, -1)
        added = added.repeat_interleave(self._group, dim=-1)
        kernels = self.base_kernel + added
        first, last = kernels[:, :, 0], kernels[:, :, 1]
        return self._convolved(sublayer(self._convolved(x, first)), last)

    def _convolved(self, x: States, kernel: Float[Tensor, "batch tokens taps width"]) -> States:
        blocks = x.reshape(-1, self._block, x.shape[-1])
        before = nn.functional.pad(blocks, (0, 0, 1, 0))[:, :-1].reshape(x.shape)
        return x * kernel[:, :, 0] + before * kernel[:, :, 1]


@final
class ConvolvedLayer(LayerParts):
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
