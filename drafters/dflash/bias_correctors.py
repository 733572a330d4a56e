"""Correctors that add a bias to the logits of each place: Markov heads, Domino and XPress."""

from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, silu

from outrider.drafters.dflash.corrector import (
    Backbone,
    Before,
    Block,
    Correction,
    Corrector,
    CorrectorConfig,
    Places,
)
from outrider.drafters.parts.networks.layer import States


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

    def rows(self, before: Before, states: States) -> States:
        """Returns what W2 reads: the row of the token before each place. states: at the places."""
        rows: Tensor = self.markov_w1(before)
        return rows

    def forward(self, block: Block) -> Correction:
        def correction(before: Before, first: int) -> Places:
            places = slice(first, before.shape[1])
            states = block.states[:, places].expand(len(before), -1, -1)
            bias: Tensor = self.markov_w2(self.rows(before[:, places], states))
            return block.logits[:, places] + bias

        return correction


@final
class Gated(Markov):
    """DSpark's gated head: a gate on each row, made of the row and the backbone's state."""

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__(backbone, config)
        self.gate_proj: nn.Linear = nn.Linear(backbone.width + config.rank, config.rank)

    def rows(self, before: Before, states: States) -> States:
        rows = super().rows(before, states)
        gate: Tensor = self.gate_proj(torch.cat([states, rows], dim=-1))
        return gate.sigmoid() * rows


@final
class MarkovRNN(Markov):
    """DSpark's recurrent head (2607.05147), which remembers more than the last token.

    From the state s, the row W1[previous token] and the backbone's state at the place, one matrix
    makes a gate g, a candidate c and an output o. Then s becomes g s + (1 - g) tanh(c), and the
    place gets W2 tanh(o). The tensors are those of the speculators library.
    """

    def __init__(self, backbone: Backbone, config: CorrectorConfig) -> None:
        super().__init__(backbone, config)
        self.joint_proj: nn.Linear = nn.Linear(2 * config.rank + backbone.width, 3 * config.rank)

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
            gru: Any = self.prefix_gru
            words = embedding(before, self._embedding)
            memory = [words.new_zeros(len(words), gru.hidden_size)]
            for word in words.unbind(1):  # cuDNN's loop has memory of its own
                memory.append(torch.gru_cell(word, memory[-1], gru.weight_ih_l0, gru.weight_hh_l0))
            read = torch.stack(memory[first + 1 :], dim=1)
            states = block.states[:, first:count].expand(len(before), -1, -1)
            bias: Tensor = self.embed_proj(torch.cat([states, read], dim=-1))
            is_corrected = torch.arange(first, count, device=bias.device) >= self._first
            return block.logits[:, first:count] + bias * is_corrected[:, None]

        return correction


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

    base: ClassVar[float] = 0.6

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
