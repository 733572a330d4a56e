"""Mixer: places of a block mix with the ones before them."""

from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from outrider.drafters.parts.networks.correctors.corrector import (
    Backbone,
    Before,
    Block,
    Correction,
    Corrector,
    CorrectorConfig,
    Places,
)


@final
class Mixer(Corrector):
    """Adds a bias from a causal mix of tokens and states over the block (XPress, 2608.02438).

    Each row of the block, also that of the last token of the text, has a vector: of the token
    before it, of the backbone's state, and of the mean state of the block. A matrix for each entry
    of the vectors, lower triangular, adds the rows before it. A feed-forward network and an output
    matrix follow. The network is that of the speculators library.

    XPress fills a block by a few passes of Jacobi's method, each on the tokens of the pass before.
    Its fixed point is what one token after the other gives, which is what is drafted here, so that
    each has a distribution. For the same reason, its training on its own guesses is left out; the
    weight of the loss before correction is XPress's.
    """

    base = 0.6

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()
        width, rank, rows = backbone.width, config.rank, backbone.rows
        self.token_embed: nn.Embedding = nn.Embedding(len(backbone.embedding), rank)
        self.down_h: nn.Linear = nn.Linear(width, rank, bias=False)
        self.down_g: nn.Linear = nn.Linear(width, rank, bias=False)
        self.in_proj: nn.Linear = nn.Linear(3 * rank, rank, bias=False)
        self.mix_l: nn.Parameter = nn.Parameter(torch.zeros(rank, rows, rows))
        self.mlp_gate: nn.Linear = nn.Linear(rank, 2 * rank, bias=False)
        self.mlp_up: nn.Linear = nn.Linear(rank, 2 * rank, bias=False)
        self.mlp_down: nn.Linear = nn.Linear(2 * rank, rank, bias=False)
        self.readout: nn.Linear = nn.Linear(rank, len(backbone.vocabulary), bias=False)
        for layer in self.children():
            nn.init.normal_(layer.get_parameter("weight"), std=0.02)

    def forward(self, block: Block) -> Correction:
        states = torch.cat([block.start, block.states], dim=1)
        mean = states.mean(1, keepdim=True).expand_as(states)
        fixed = torch.cat([self.down_h(states), self.down_g(mean)], dim=-1)
        start = block.start.shape[1]

        def correction(before: Before, first: int) -> Places:
            tokens = torch.cat([block.earlier.expand(len(before), -1), before], dim=1)
            count, row = tokens.shape[1], first + start
            known = fixed[:, :count].expand(len(before), -1, -1)
            x = self.in_proj(torch.cat([known, self.token_embed(tokens)], dim=-1))
            weights = self.mix_l.tril()[:, row:count, :count]
            x = x[:, row:] + torch.einsum("rij,bjr->bir", weights, x)
            x = x + self.mlp_down(silu(self.mlp_gate(x)) * self.mlp_up(x))
            bias: Tensor = self.readout(x)
            return block.logits[:, first : before.shape[1]] + bias

        return correction
