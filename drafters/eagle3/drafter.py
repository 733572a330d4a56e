"""Eagle3: one decoder layer on low, middle and high states of the target drafts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.target import Target
from outrider.drafters.eagle3.config import Eagle3Config
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.decoder_layers import FusionLayer
from outrider.drafters.parts.networks.features import (
    LOWEST,
    FeatureDrafter,
    FeatureNetwork,
    default_layers,
    state_names,
)
from outrider.drafters.parts.networks.layer import (
    Ids,
    KeysAndValues,
    Known,
    RMSNorm,
    Sees,
    State,
    States,
)
from outrider.drafters.parts.networks.vocabulary import Vocabulary


@final
class Eagle3Network(FeatureNetwork):
    """Runs token and state side by side through one layer (2503.01840, section 3.1).

    Its output is fed back to it, and the head reads the output through a norm; in EAGLE-3.1 the
    normed output is fed back. The tensors are those of SafeAILab's EAGLE-3, and of the speculators
    library for the norms that only some networks have.

    config: Defaults to the sizes of the target's own layers.
    words: its embeddings. Defaults to the target's.
    """

    family = "eagle3"

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        config: Eagle3Config | None = None,
        words: Float[Tensor, "vocab width"] | None = None,
    ) -> None:
        super().__init__()
        config = config or Eagle3Config.like(target)
        sizes, norms = config.sizes, config.norms
        self.vocabulary = vocabulary
        self.config: Eagle3Config = config
        self.reads: tuple[str, ...] = state_names(config.layers)
        width, eps, count = sizes.hidden_size, sizes.rms_norm_eps, len(config.layers)
        self.input_norm: RMSNorm | None = RMSNorm(count * width, eps) if norms.together else None
        self.fc_norm: Any = nn.ModuleList(RMSNorm(width, eps) for _ in config.layers if norms.apart)
        self.fc: nn.Linear = nn.Linear(count * width, width, bias=False)
        self.layer: FusionLayer = FusionLayer(sizes, norm_first=norms.first, normed=norms.heads)
        self.norm: RMSNorm = RMSNorm(width, eps)
        self.lm_head: nn.Linear = nn.Linear(width, len(vocabulary), bias=False)
        self._embed(target, words)

    def states(self, features: Sequence[State]) -> State:
        if self.config.norms.apart:
            features = [norm(rows) for norm, rows in zip(self.fc_norm, features, strict=True)]
        both = torch.cat(list(features), dim=-1)
        states: Tensor = self.fc(both if self.input_norm is None else self.input_norm(both))
        return states

    def forward(
        self, states: States, tokens: Ids, positions: Ids, sees: Sees, cache: KeysAndValues
    ) -> States:
        words = embedding(tokens, self._embedding)
        out: Tensor = self.layer(words, states, positions, sees, cache)
        return self.norm(out) if self.config.norms.output else out

    def logits(self, states: State) -> Known:
        logits: Tensor = self.lm_head(states if self.config.norms.output else self.norm(states))
        return logits

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = Eagle3Config.read(folder, target)
        file, tensors, vocabulary = speculators.read_tensors(folder, target)
        words = weights.own_embedding(tensors, file, target)
        tensors = checkpoint.replace_prefixes(
            tensors, {"midlayer.": "layer.", "layers.0.": "layer."}
        )
        norms = replace(config.norms, heads="layer.self_attn.q_norm.weight" in tensors)
        config = replace(config, norms=norms)
        return cls.with_tensors(tensors, file, target, vocabulary, config=config, words=words)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network in the layout of the speculators library, in half precision."""
        config = self.config.stored(self.family, target, len(self.vocabulary))
        tensors = checkpoint.replace_prefixes(self.state_dict(), {"layer.": "layers.0."})
        tensors |= {**speculators.vocabulary_tensors(self.vocabulary), **self._own_tables}
        checkpoint.write_checkpoint(folder, tensors, config, torch.float16)


@final
class Eagle3(FeatureDrafter[Eagle3Network]):
    """Drafts token by token on several states of the target (EAGLE-3, 2503.01840).

    path: a folder that `outrider train` has written, one of SafeAILab's EAGLE-3, SpecForge's,
        AngelSlim's or NVIDIA's in the same layout, or an eagle3 of the speculators library,
        EAGLE-3.1 among them; "untrained" for random weights. Defaults to the weights for SmolLM2
        that come with the package.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` if the weights don't fit the target; it names the tensor.
    """

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        super().__init__(Eagle3Network, path, tree)
        self._layers: tuple[int, ...] | None = LOWEST
        if path != weights.UNTRAINED:
            folder = weights.folder("eagle3", path)
            self._layers = speculators.layers_read(folder, checkpoint.read_config(folder))
        # The default depends on the target, so that it is known only in `bind`.
        self.needs: frozenset[str] = frozenset({"model", *state_names(self._layers or ())})

    def bind(self, target: Target) -> None:
        if self._layers is None:
            self.needs = frozenset({"model", *state_names(default_layers(target))})
        super().bind(target)
