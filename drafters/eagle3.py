"""Eagle3: one decoder layer on low, middle and high states of the target, with its own head."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.decoder_layers import FusionLayer
from outrider.drafters.parts.networks.features import (
    LOWEST,
    FeatureDrafter,
    FeatureNetwork,
    state_names,
)
from outrider.drafters.parts.networks.layer import KeysAndValues, LayerConfig, RMSNorm
from outrider.drafters.parts.networks.vocabulary import Vocabulary


@final
class Eagle3Network(FeatureNetwork):
    """Runs token and state side by side through one layer (2503.01840, section 3.1).

    Its output is fed back to it unchanged; the head reads the output through a norm. The tensors
    are those of SafeAILab's EAGLE-3. The embeddings are the target's.

    layers: the target's hidden states that it reads, each given by the number of layers below it.
    config: the sizes of the layer. Defaults to those of the target's own layers.
    norm_first: as for `FusionLayer`.
    """

    family = "eagle3"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        layers: Sequence[int] = LOWEST,
        config: LayerConfig | None = None,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        config = config or LayerConfig.like(target.model.config.get_text_config(), inputs=2)
        self.vocabulary = vocabulary
        self.config: LayerConfig = config
        self.layers: tuple[int, ...] = tuple(layers)
        self.reads: tuple[str, ...] = state_names(layers)
        width, eps = config.hidden_size, config.rms_norm_eps
        self.fc: nn.Linear = nn.Linear(len(self.layers) * width, width, bias=False)
        self.layer: FusionLayer = FusionLayer(config, norm_first=norm_first)
        self.norm: RMSNorm = RMSNorm(width, eps)
        self.lm_head: nn.Linear = nn.Linear(width, len(vocabulary), bias=False)
        self._embedding = weights.embedding(target).detach()

    def states(
        self, features: Sequence[Float[Tensor, "*batch width"]]
    ) -> Float[Tensor, "*batch w"]:
        states: Tensor = self.fc(torch.cat(list(features), dim=-1))
        return states

    def forward(
        self,
        states: Float[Tensor, "batch tokens w"],
        tokens: Int[Tensor, "batch tokens"],
        positions: Int[Tensor, "batch tokens"],
        sees: Bool[Tensor, "batch 1 tokens all"] | None,
        cache: KeysAndValues,
    ) -> Float[Tensor, "batch tokens w"]:
        words = embedding(tokens, self._embedding)
        out: Tensor = self.layer(words, states, positions, sees, cache)
        return out

    def logits(self, states: Float[Tensor, "*batch w"]) -> Float[Tensor, "*batch known"]:
        logits: Tensor = self.lm_head(self.norm(states))
        return logits

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = checkpoint.read_config(folder)
        # The speculators library keeps the sizes of the layer in an entry of their own.
        sizes = config.get("transformer_layer_config") or config
        weights.require_fit(folder, sizes, target)
        file, tensors, vocabulary = weights.read_tensors(
            folder, target.vocab_size, speculators.take_vocabulary
        )
        tensors.pop("embed_tokens.weight", None)  # a copy of the target's
        return cls.with_tensors(
            checkpoint.replace_prefixes(tensors, {"midlayer.": "layer.", "layers.0.": "layer."}),
            file,
            target,
            vocabulary,
            layers=speculators.layers_read(config),
            config=LayerConfig.read(sizes, target.model.config.get_text_config(), inputs=2),
            norm_first=bool(config.get("norm_before_residual", False)),
        )

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network in the layout of the speculators library, in half precision."""
        decoder = speculators.decoder_config(target, self.config)
        config = speculators.config("eagle3", target, decoder, len(self.vocabulary), tokens=4)
        config |= {
            speculators.LAYERS_KEY: list(self.layers),
            "norm_before_residual": self.layer.norm_first,
        }
        tensors = checkpoint.replace_prefixes(self.state_dict(), {"layer.": "layers.0."})
        tensors |= speculators.vocabulary_tensors(self.vocabulary)
        checkpoint.write_checkpoint(folder, tensors, config, torch.float16)


@final
class Eagle3(FeatureDrafter[Eagle3Network]):
    """Drafts token by token on several states of the target (EAGLE-3, 2503.01840).

    path: a folder that `outrider train` has written, one of SafeAILab's EAGLE-3, or an eagle3 of
        the speculators library; "untrained" for random weights. Defaults to the weights for
        SmolLM2 that come with the package.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` if the weights don't fit the target; it names the tensor.
    """

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        super().__init__(Eagle3Network, path, tree)
        layers: Sequence[int] = LOWEST
        if path != weights.UNTRAINED:
            layers = speculators.layers_read(checkpoint.read_config(weights.folder("eagle3", path)))
        self.needs: frozenset[str] = frozenset({"model", *state_names(layers)})


def default_layers(target: Target) -> tuple[int, int, int]:
    """Returns the low, middle and high states of a target that EAGLE-3 reads."""
    count = int(target.model.config.get_text_config().num_hidden_layers)
    return min(2, count - 1), count // 2, max(0, count - 3)
