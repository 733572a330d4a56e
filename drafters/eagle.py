"""Eagle: one decoder layer predicts the target's next state, and the target's head reads it."""

from pathlib import Path
from typing import Any, Self, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.entries import Entry, Table
from outrider.drafters.parts.networks.features import FeatureDrafter, FeatureNetwork
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
from outrider.drafters.parts.networks.vocabulary import Vocabulary
from outrider.targets.passes.cached_model import HIDDEN

TABLE: Table = {"bias": Entry("bias", bool, True)}
"""The entry of published configs for the fusion's bias."""


@final
class EagleNetwork(FeatureNetwork):
    """Fuses state and token, and runs them through one layer (2401.15077, section 3.1).

    The tensors are those of SafeAILab's EAGLE-1 and EAGLE-2. The head is the target's.

    config: the sizes of the layer. Defaults to those of the target's own layers.
    words: its embeddings. Defaults to the target's.
    bias: whether the fusion has one; some of SafeAILab's checkpoints don't.
    """

    family = "eagle"
    reads: tuple[str, ...] = (HIDDEN,)

    def __init__(
        self,
        target: Target,
        vocabulary: Vocabulary,
        *,
        config: LayerConfig | None = None,
        words: Float[Tensor, "vocab width"] | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        config = config or LayerConfig.like(target.model.config.get_text_config())
        self.vocabulary = vocabulary
        self.fc: nn.Linear = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=bias)
        # EAGLE's layer has no norm before its attention.
        self.self_attn: Attention = Attention(config)
        self.post_attention_layernorm: RMSNorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp: FeedForward = FeedForward(config)
        self._embed(target, words)
        self.borrowed_head: weights.BorrowedHead | None = weights.BorrowedHead.of(
            target, vocabulary
        )

    def forward(
        self, states: States, tokens: Ids, positions: Ids, sees: Sees, cache: KeysAndValues
    ) -> States:
        both = torch.cat([embedding(tokens, self._embedding), states], dim=-1)
        x = self.fc(both)
        return layer_output(self, x, x, positions=positions, sees=sees, cache=cache)

    @classmethod
    def read_checkpoint(cls, folder: Path, target: Target) -> Self:
        options = speculators.read_layer(folder, target, family=cls.family, table=TABLE)
        file, tensors, vocabulary = weights.read_tensors(folder, target.vocab_size)
        options["words"] = weights.own_embedding(tensors, file, target)
        tensors = checkpoint.replace_prefixes(tensors, {"layers.0.": ""})
        return cls.with_tensors(tensors, file, target, vocabulary, **options)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network as SafeAILab's EAGLE names it, in half precision."""
        names = {"fc.": "fc.", "": "layers.0."}
        tensors = checkpoint.replace_prefixes(self.state_dict(), names)
        own: dict[str, Any] = {} if self.fc.bias is not None else {"bias": False}
        self._write(folder, target, tensors, **own)


@final
class Eagle(FeatureDrafter[EagleNetwork]):
    """Drafts token by token on the target's last state (EAGLE-1, 2401.15077).

    path: a folder that `outrider train` has written, or one of SafeAILab's EAGLE-1 or EAGLE-2;
        "untrained" for random weights. Defaults to the weights for SmolLM2 that come with the
        package.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`; EAGLE-2's is
        dynamic:10. Defaults to a chain.
    """

    needs: frozenset[str] = frozenset({"model", HIDDEN})

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        super().__init__(EagleNetwork, path, tree)
