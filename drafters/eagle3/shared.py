"""What EAGLE-3 and P-EAGLE share: the parts of their networks, and which states they read."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from outrider.contract.target import Target
from outrider.drafters.eagle3.config import Eagle3Config
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.decoder_layers import DecoderLayer, FusionLayer
from outrider.drafters.parts.networks.features import LOWEST, default_layers, state_names
from outrider.drafters.parts.networks.layer import Known, RMSNorm, State
from outrider.drafters.parts.networks.trained import TrainedDrafter, TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary


class FusionNetwork(TrainedNetwork):
    """Fuses several states of the target, and runs them beside tokens (2503.01840, section 3.1).

    The tensors are those of SafeAILab's EAGLE-3, and of the speculators library for the norms and
    layers that only some networks have.

    config: Defaults to one layer with the sizes of the target's own.
    words: its embeddings. Defaults to the target's.
    """

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
        sizes, heads = config.sizes, config.norm_heads
        self.vocabulary = vocabulary
        self.config: Eagle3Config = config
        self.reads: tuple[str, ...] = state_names(config.layers)
        width, eps, count = sizes.hidden_size, sizes.rms_norm_eps, len(config.layers)
        self.input_norm: RMSNorm | None = (
            RMSNorm(count * width, eps) if config.norm_together else None
        )
        own = config.layers if config.norm_apart else ()
        self.fc_norm: Any = nn.ModuleList(RMSNorm(width, eps) for _ in own)
        self.fc: nn.Linear = nn.Linear(count * width, width, bias=False)
        first = FusionLayer(sizes, norm_first=config.norm_first, normed=heads)
        plain = replace(sizes, input_size=width)
        others = [DecoderLayer(plain, normed=heads) for _ in range(config.decoders - 1)]
        self.layers: Any = nn.ModuleList([first, *others])
        self.norm: RMSNorm = RMSNorm(width, eps)
        self.lm_head: nn.Linear = nn.Linear(width, len(vocabulary), bias=False)
        self._embed(target, words)

    def fused(self, features: Sequence[State]) -> State:
        """Returns one state for those of the target, which are in the order of `reads`."""
        if self.config.norm_apart:
            features = [norm(rows) for norm, rows in zip(self.fc_norm, features, strict=True)]
        both = torch.cat(list(features), dim=-1)
        states: Tensor = self.fc(both if self.input_norm is None else self.input_norm(both))
        return states

    def logits(self, states: State) -> Known:
        """Returns the logits of the token after each state, over the network's vocabulary."""
        logits: Tensor = self.lm_head(states if self.config.norm_output else self.norm(states))
        return logits

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        config = Eagle3Config.read(folder, target, cls.family)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        words = weights.own_embedding(tensors, file, target)
        tensors = checkpoint.replace_prefixes(tensors, {"midlayer.": "layers.0."})
        if "mask_hidden" in tensors:  # checkpoints differ in the number of its dimensions
            tensors["mask_hidden"] = tensors["mask_hidden"].reshape(1, 1, -1)
        config = replace(config, norm_heads="layers.0.self_attn.q_norm.weight" in tensors)
        return cls.with_tensors(tensors, file, target, vocabulary, config=config, words=words)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network in the layout of the speculators library, in half precision."""
        config = self.config.stored(self.family, target, len(self.vocabulary))
        own = speculators.vocabulary_tensors(self.vocabulary)
        tensors = {**self.state_dict(), **own, **self._own_tables}
        checkpoint.write_checkpoint(folder, tensors, config, torch.float16)


Network = TypeVar("Network", bound=FusionNetwork)


class StatesDrafter(TrainedDrafter[Network]):
    """Reads the states of the target that its checkpoint names.

    The default ones depend on the target, so that they are known only in `bind`.
    """

    def __init__(self, network_class: type[Network], path: str | None, tree: Any) -> None:
        super().__init__(network_class, path, tree)
        self._layers: tuple[int, ...] | None = LOWEST
        if path != weights.UNTRAINED:
            folder = weights.folder(network_class.family, path)
            self._layers = speculators.layers_read(folder, checkpoint.read_config(folder))
        self.needs: frozenset[str] = frozenset({"model", *state_names(self._layers or ())})

    def bind(self, target: Target) -> None:
        if self._layers is None:
            self.needs = frozenset({"model", *state_names(default_layers(target))})
        super().bind(target)
