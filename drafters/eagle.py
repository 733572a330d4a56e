"""Eagle: one decoder layer predicts the target's next feature, and the target's head reads it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.context import Context
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafter_parts import checkpoint, weights
from outrider.drafter_parts.features import FeatureDrafting, FeatureNetwork
from outrider.drafter_parts.layer import Attention, FeedForward, KeysAndValues, LayerConfig, RMSNorm
from outrider.drafter_parts.trees import parse
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import HIDDEN


@final
class EagleNetwork(FeatureNetwork):
    """Fuses state and token, and runs them through one layer (2401.15077, section 3.1).

    The tensors are those of SafeAILab's EAGLE-1 and EAGLE-2; embeddings and head are the target's.

    bias: whether the fusion has one; some of their checkpoints have none.
    """

    reads = (HIDDEN,)

    def __init__(
        self, config: LayerConfig, target: Target, vocabulary: Vocabulary, *, bias: bool = True
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=bias)
        # The first layer has no norm before its attention.
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config)
        self._embedding = weights.embedding(target).detach()
        self._head = weights.Head(vocabulary.rows(weights.head(target).detach()))

    def states(self, features: Sequence[Float[Tensor, "*rows width"]]) -> Float[Tensor, "*rows w"]:
        return features[0]

    def forward(
        self,
        states: Float[Tensor, "batch tokens w"],
        tokens: Int[Tensor, "batch tokens"],
        positions: Int[Tensor, "batch tokens"],
        reach: Bool[Tensor, "batch 1 tokens all"] | None,
        cache: KeysAndValues,
    ) -> Float[Tensor, "batch tokens w"]:
        x: Tensor = self.fc(torch.cat([embedding(tokens, self._embedding), states], dim=-1))
        x = x + self.self_attn(x, positions, reach, cache)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out

    def logits(self, states: Float[Tensor, "*rows w"]) -> Float[Tensor, "*rows some"]:
        return self._head(states)


@final
class Eagle(Drafter):
    """Drafts token by token on the target's features (EAGLE-1, 2401.15077).

    path: a folder that `outrider train` has written, or one of SafeAILab's EAGLE-1 or EAGLE-2; the
        weights for SmolLM2 that come with the package unless told; "untrained" for random ones.
    tree: a shape to fill, see `outrider.drafter_parts.trees`; a chain unless told. EAGLE-2's is dynamic:10.

    Raises `ConfigError` in `bind` where the weights don't fit the target, naming the tensor.
    """

    needs = frozenset({"model", HIDDEN})

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        self._path = path
        self._shape = parse(tree)
        self.kind = self._shape.kind
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is not target:
            self._drafting = FeatureDrafting(read(self._path, target))
            self._target = target

    def propose(self, context: Context, pen: Pen) -> None:
        self._drafting.draft(context, pen, self._shape)


def fresh(target: Target, vocabulary: Vocabulary, seed: int = 0) -> EagleNetwork:
    """Returns a network that fits a target, with random weights."""
    sizes = LayerConfig.like(target.model.config.get_text_config())
    return weights.untrained(lambda: EagleNetwork(sizes, target, vocabulary), target, seed)


def read(path: str | None, target: Target) -> EagleNetwork:
    """Returns the network in a folder, for a target."""
    if path == weights.UNTRAINED:
        return fresh(target, Vocabulary(target.vocab_size))
    place = weights.folder("eagle", path)
    config = checkpoint.read_config(place)
    weights.fits(place, config, target)
    file, tensors = checkpoint.tensors_in(place)
    vocabulary = Vocabulary(target.vocab_size, tensors.pop("vocabulary", None))
    # SafeAILab's files hold a copy of the target's embeddings.
    tensors = {name: each for name, each in tensors.items() if name != "embed_tokens.weight"}
    sizes = LayerConfig.read(config, target.model.config.get_text_config())
    bias = bool(config.get("bias", True))
    return weights.filled(
        lambda: EagleNetwork(sizes, target, vocabulary, bias=bias),
        target,
        checkpoint.renamed(tensors, {"layers.0.": ""}),
        file,
    )


def save(network: EagleNetwork, folder: Path, config: dict[str, Any]) -> None:
    """Writes a network as SafeAILab's EAGLE names it, in half precision."""
    tensors = {
        name if name.startswith("fc.") else f"layers.0.{name}": tensor
        for name, tensor in network.state_dict().items()
    }
    if network.vocabulary.ids is not None:
        tensors["vocabulary"] = network.vocabulary.ids
    checkpoint.save(folder, tensors, config, torch.float16)


@hookimpl
def register_drafters(register: Register) -> None:
    register("eagle", Eagle)
