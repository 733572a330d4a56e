"""Recurrent heads: a state that has read the tokens of the block so far."""

from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

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
class MarkovRNN(Corrector):
    """DSpark's recurrent head (2607.05147), which remembers more than the last token.

    From the state s, the row W1[previous token] and the backbone's state at the place, one matrix
    makes a gate g, a candidate c and an output o. Then s becomes g s + (1 - g) tanh(c), and the
    place gets W2 tanh(o). The tensors are those of the speculators library.
    """

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()
        self.markov_w1: nn.Embedding = nn.Embedding(len(backbone.embedding), config.rank)
        nn.init.normal_(self.markov_w1.weight, std=0.01)
        self.joint_proj: nn.Linear = nn.Linear(2 * config.rank + backbone.width, 3 * config.rank)
        known = len(backbone.vocabulary)
        self.markov_w2: nn.Linear = nn.Linear(config.rank, known, bias=False)

    def forward(self, block: Block) -> Correction:
        def correction(before: Before, first: int) -> Places:
            count, words = before.shape[1], self.markov_w1(before)
            states = block.states.expand(len(before), -1, -1)
            memory, outputs = torch.zeros_like(words[:, 0]), list[Tensor]()
            for place in range(count):
                read = torch.cat([memory, words[:, place], states[:, place]], dim=-1)
                gate, candidate, output = self.joint_proj(read).chunk(3, dim=-1)
                gate = gate.sigmoid()
                memory = gate * memory + (1 - gate) * candidate.tanh()
                outputs.append(output.tanh())
            bias: Tensor = self.markov_w2(torch.stack(outputs[first:], dim=1))
            return block.logits[:, first:count] + bias

        return correction


@final
class Domino(Corrector):
    """Adds what a GRU over the tokens' embeddings makes of each place (Domino, 2605.29707).

    The GRU reads the target's embeddings of the last token of the text and of those drafted. Its
    state and the backbone's are projected to `rank` entries, and from there to the vocabulary. The
    tensors are those of SpecForge, whose loss moves from the logits before correction to those
    after it; here they count after it alone.
    """

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__()
        width, rank, memory = backbone.width, config.rank, config.memory or config.rank
        self._embedding, self._first = backbone.embedding, config.first
        self.prefix_gru: nn.GRU = nn.GRU(width, memory, batch_first=True, bias=False)
        inner = nn.Linear(width + memory, rank, bias=False)
        last = nn.Linear(rank, len(backbone.vocabulary), bias=False)
        self.embed_proj: nn.Sequential = nn.Sequential(inner, nn.SiLU(), last)

    def forward(self, block: Block) -> Correction:
        def correction(before: Before, first: int) -> Places:
            count = before.shape[1]
            memory, _ = self.prefix_gru(embedding(before, self._embedding))
            states = block.states[:, first:count].expand(len(before), -1, -1)
            bias: Tensor = self.embed_proj(torch.cat([states, memory[:, first:]], dim=-1))
            is_corrected = torch.arange(first, count, device=bias.device) >= self._first
            return block.logits[:, first:count] + bias * is_corrected[:, None]

        return correction
