"""Markov: a bias for each pair of a token and the next one."""

from typing import final

from torch import Tensor, nn

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
class Markov(Corrector):
    """Adds B[previous token, token] to each place, with B = W1 W2 of low rank (DSpark, 2607.05147).

    This is the paper's "vanilla" head. W1 has a row for each token of the target, W2 one for each
    token that is drafted. The tensors are those of the speculators library.
    """

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()
        self.markov_w1: nn.Embedding = nn.Embedding(len(backbone.embedding), config.rank)
        nn.init.normal_(self.markov_w1.weight, std=0.01)
        known = len(backbone.vocabulary)
        self.markov_w2: nn.Linear = nn.Linear(config.rank, known, bias=False)

    def forward(self, block: Block) -> Correction:
        def correction(before: Before, first: int) -> Places:
            bias: Tensor = self.markov_w2(self.markov_w1(before[:, first:]))
            return block.logits[:, first : before.shape[1]] + bias

        return correction
