"""The network of P-EAGLE: EAGLE-3's layer, and mask tokens with a learned state."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.decoder_layers import DecoderLayer, FusionLayer, LayerCaches
from outrider.drafters.parts.networks.features import default_layers, state_names
from outrider.drafters.parts.networks.layer import Ids, RMSNorm, Sees, States
from outrider.drafters.parts.networks.trained import TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.drafters.peagle.config import PEagleConfig


@final
class PEagleNetwork(TrainedNetwork):
    """Predicts several tokens after a text, all but the first at masks (2602.01469, section 3).

    A token of the text and the target's states before it run side by side, as in EAGLE-3. Masks
    have a learned state instead. The tensors are those of the speculators library's P-EAGLE.

    config: Defaults to one layer with the sizes of the target's own.
    words: its embeddings. Defaults to the target's.
    """

    family = "peagle"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        config: PEagleConfig | None = None,
        words: Float[Tensor, "vocab width"] | None = None,
    ) -> None:
        super().__init__()
        config = config or PEagleConfig.like(target)
        self.vocabulary = vocabulary
        self.config: PEagleConfig = config
        self.reads: tuple[str, ...] = state_names(config.layers or default_layers(target))
        width, normed = config.sizes.hidden_size, config.normed
        self.fc: nn.Linear = nn.Linear(len(self.reads) * width, width, bias=False)
        self.mask_hidden: nn.Parameter = nn.Parameter(torch.randn(1, 1, self.fc.in_features))
        first = FusionLayer(config.sizes, norm_first=config.norm_first, normed=normed)
        plain = replace(config.sizes, input_size=width)
        others = [DecoderLayer(plain, normed=normed) for _ in range(config.decoders - 1)]
        self.layers: Any = nn.ModuleList([first, *others])
        self.norm: RMSNorm = RMSNorm(width, config.sizes.rms_norm_eps)
        self.lm_head: nn.Linear = nn.Linear(width, len(vocabulary), bias=False)
        self._embed(target, words)

    def states(self, features: Sequence[States], masks: int) -> States:
        """Returns the input states of some tokens, and of masks after them.

        features: the target's before each token, in the order of `reads`.
        masks: the number of masks.
        """
        fused = self.fc(torch.cat(list(features), dim=-1))
        learned = self.fc(self.mask_hidden)
        return torch.cat([fused, learned.expand(len(fused), masks, -1)], dim=1)

    def forward(
        self, states: States, tokens: Ids, positions: Ids, sees: Sees, caches: LayerCaches
    ) -> States:
        """Returns the state after each token or mask."""
        fusion, *others = zip(self.layers, caches.of_layer, strict=True)
        words = embedding(tokens, self._embedding)
        x: Tensor = fusion[0](words, states, positions, sees, fusion[1])
        for layer, cache in others:
            x = layer(x, positions, sees, cache)
        return x

    def logits(self, states: Float[Tensor, "*batch w"]) -> Float[Tensor, "*batch known"]:
        """Returns the logits of the token after each state, over the network's vocabulary."""
        logits: Tensor = self.lm_head(self.norm(states))
        return logits

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = PEagleConfig.read(folder)
        speculators.require_fit(folder, config.sizes, config.mask, target)
        file, tensors, vocabulary = speculators.read_tensors(folder, target)
        tensors = checkpoint.replace_prefixes(tensors, {"midlayer.": "layers.0."})
        words = weights.own_embedding(tensors, file, target)
        if "mask_hidden" in tensors:  # checkpoints differ in the number of its dimensions
            tensors["mask_hidden"] = tensors["mask_hidden"].reshape(1, 1, -1)
        config = replace(
            config,
            layers=config.layers or default_layers(target),
            normed="layers.0.self_attn.q_norm.weight" in tensors,
        )
        return cls.with_tensors(tensors, file, target, vocabulary, config=config, words=words)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network in the layout of the speculators library, in half precision."""
        tensors = self.state_dict() | speculators.vocabulary_tensors(self.vocabulary)
        tensors |= self._own_tables
        config = self.config.stored(target, len(self.vocabulary))
        checkpoint.write_checkpoint(folder, tensors, config, torch.float16)
