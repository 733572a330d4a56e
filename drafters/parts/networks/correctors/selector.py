"""Selector: a Markov chain over the likeliest tokens of each place."""

from typing import final

import torch
from jaxtyping import Float, Int
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
class Selector(Corrector):
    """Scores each pair of a token and a candidate for the next one, as DFlash2 of z-lab does.

    Of the tokens b with the largest logits U, token b at a place after token a has the score
    U[b] + <A[a] * H(state), B[b]>. All others are excluded. The tensors are those of the
    speculators library. It learns the target's distributions over the candidates; with the target's
    tokens, a place whose token is no candidate does not teach it, where z-lab's training makes that
    token one. There is no paper.
    """

    base = 1.0

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()
        known = len(backbone.vocabulary)
        self._count = min(config.candidates, known)
        self.predecessor_codebook: nn.Embedding = nn.Embedding(len(backbone.embedding), config.rank)
        self.successor_codebook: nn.Embedding = nn.Embedding(known, config.rank)
        self.hidden_projection: nn.Linear = nn.Linear(backbone.width, config.rank, bias=False)
        for layer in (self.predecessor_codebook, self.successor_codebook, self.hidden_projection):
            nn.init.normal_(layer.weight, std=0.02)

    def forward(self, block: Block) -> Correction:
        best = block.logits.topk(self._count)
        hidden = self.hidden_projection(block.states)
        successors = self.successor_codebook(best.indices)

        def correction(before: Before, first: int) -> Places:
            places = slice(first, before.shape[1])
            pair = self.predecessor_codebook(before[:, places]) * hidden[:, places]
            added = (pair[..., None, :] * successors[:, places]).sum(-1)
            scores = best.values[:, places] + added
            return only(scores, best.indices[:, places], block.logits.shape[-1])

        return correction


def only(
    scores: Float[Tensor, "*batch candidates"],
    candidates: Int[Tensor, "*some candidates"],
    size: int,
) -> Float[Tensor, "*batch size"]:
    """Returns logits over `size` tokens: the scores of the candidates, and -inf for all others."""
    excluded = scores.new_full((*scores.shape[:-1], size), -torch.inf)
    return excluded.scatter(-1, candidates.expand_as(scores), scores)
