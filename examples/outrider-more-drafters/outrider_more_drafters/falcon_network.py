"""FalconNetwork: a layer and an LSTM that predict the states of a whole block of positions."""

from pathlib import Path
from typing import Self, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.base.bounds import Count
from outrider.contract.target import Target
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.entries import Entry, Table
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
from outrider.drafters.parts.networks.trained import TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary

TABLE: Table = {"block": Entry("block", Count)}
"""The entry of a config for the number of tokens in a block."""

LSTMState = tuple[Tensor, Tensor]
"""The state of the LSTM: two tensors [layers, batch, width]."""


@final
class FalconNetwork(TrainedNetwork):
    """Predicts the state `block` positions later, from a position's state and the next token.

    State and token are fused, read in order by an LSTM of two layers, and mixed by attention whose
    mask is relaxed: the positions of a block see each other, later ones included (Falcon, AAAI
    2025, doi 10.1609/aaai.v39i22.34566). The head and the embeddings are the target's.

    config: the sizes of the layer. Defaults to those of the target's own layers.
    """

    family = "falcon"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        block: int = 2,
        config: LayerConfig | None = None,
    ) -> None:
        super().__init__()
        config = config or LayerConfig.like(target.model.config.get_text_config())
        self.vocabulary = vocabulary
        self.block = block
        width, eps = config.hidden_size, config.rms_norm_eps
        self.fc: nn.Linear = nn.Linear(2 * width, width)
        self.lstm: nn.LSTM = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.input_layernorm: RMSNorm = RMSNorm(width, eps)
        self.self_attn: Attention = Attention(config)
        self.post_attention_layernorm: RMSNorm = RMSNorm(width, eps)
        self.mlp: FeedForward = FeedForward(config)
        self._embed(target)
        self._shared_head = weights.BorrowedHead.of(target, vocabulary)
        self.borrowed_head: weights.BorrowedHead | None = self._shared_head

    def fuse(
        self, states: States, tokens: Ids, memory: LSTMState | None
    ) -> tuple[States, LSTMState]:
        """Returns the input of the layer at each position, and the LSTM's memory after the last.

        states, tokens: the state at each position, and the token after it.
        memory: the LSTM's, after the position before the first; None at the start of a text.
        """
        fused = self.fc(torch.cat([embedding(tokens, self._embedding), states], dim=-1))
        out, after = self.lstm(fused, memory)
        return fused + out, after

    def forward(self, x: States, positions: Ids, sees: Sees, cache: KeysAndValues) -> States:
        """Returns the state `block` positions after each position.

        x: what `fuse` returned.
        """
        return layer_output(
            self, self.input_layernorm(x), x, positions=positions, sees=sees, cache=cache
        )

    def logits(self, states: Float[Tensor, "*batch w"]) -> Float[Tensor, "*batch known"]:
        """Returns the logits of the token after each state, over the network's vocabulary."""
        return self._shared_head(states)

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        options = speculators.read_layer(folder, target, family=cls.family, table=TABLE)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        return cls.with_tensors(tensors, file, target, vocabulary, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        self._write(folder, target, self.state_dict(), block=self.block)
