"""Eagle3: one decoder layer on low, middle and high states of the target, with a head of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from outrider.drafter_parts import checkpoint, speculators, weights
from outrider.drafter_parts.features import FeatureDrafting, FeatureNetwork
from outrider.drafter_parts.layer import Attention, FeedForward, KeysAndValues, LayerConfig, RMSNorm
from outrider.drafter_parts.trees import parse
from outrider.drafter_parts.vocabulary import Vocabulary
from outrider.errors import ConfigError
from outrider.plugins.hookspecs import Register, hookimpl
from outrider.runtime.cached_model import HIDDEN
from outrider.runtime.linear import product

LOWEST = (0, 1, 2)
"""The states that random weights read, which every target has."""


@final
class Eagle3Network(FeatureNetwork):
    """Runs token and state side by side through one layer (2503.01840, section 3.1).

    What it gives is fed back to it as it is; the head reads it through a norm. The tensors are
    those of SafeAILab's EAGLE-3; the embeddings are the target's.

    layers: the hidden states of the target that it reads, as how many layers give them.
    norm_first: whether the layer adds to the normed state, as some of speculators' do.
    """

    def __init__(
        self,
        config: LayerConfig,
        target: Target,
        vocabulary: Vocabulary,
        layers: Sequence[int],
        *,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.norm_first = norm_first
        self.sizes, self.layers = config, tuple(layers)
        self.reads = tuple(f"{HIDDEN}.{layer}" for layer in layers)
        width, eps = config.hidden_size, config.rms_norm_eps
        self.fc = nn.Linear(len(self.layers) * width, width, bias=False)
        self.hidden_norm = RMSNorm(width, eps)
        self.input_layernorm = RMSNorm(width, eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(width, eps)
        self.mlp = FeedForward(config)
        self.norm = RMSNorm(width, eps)
        self.lm_head = nn.Linear(width, len(vocabulary), bias=False)
        self._embedding = weights.embedding(target).detach()

    def states(self, features: Sequence[Float[Tensor, "*rows width"]]) -> Float[Tensor, "*rows w"]:
        return product(self.fc, torch.cat(list(features), dim=-1))

    def forward(
        self,
        states: Float[Tensor, "batch tokens w"],
        tokens: Int[Tensor, "batch tokens"],
        positions: Int[Tensor, "batch tokens"],
        reach: Bool[Tensor, "batch 1 tokens all"] | None,
        cache: KeysAndValues,
    ) -> Float[Tensor, "batch tokens w"]:
        word = self.input_layernorm(embedding(tokens, self._embedding))
        normed = self.hidden_norm(states)
        x = torch.cat([word, normed], dim=-1)
        x = (normed if self.norm_first else states) + self.self_attn(x, positions, reach, cache)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out

    def logits(self, states: Float[Tensor, "*rows w"]) -> Float[Tensor, "*rows some"]:
        return product(self.lm_head, self.norm(states))


@final
class Eagle3(Drafter):
    """Drafts token by token from several depths of the target (EAGLE-3, 2503.01840).

    path: a folder that `outrider train` has written, one of SafeAILab's EAGLE-3, or an eagle3 of the
        speculators library; the weights for SmolLM2 that come with the package unless told;
        "untrained" for random ones.
    tree: a shape to fill, see `outrider.drafter_parts.trees`; a chain unless told.

    Raises `ConfigError` where the weights don't fit the target, naming the tensor.
    """

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        self._path = path
        self._shape = parse(tree)
        self.kind = self._shape.kind
        layers: Sequence[int] = LOWEST
        if path != weights.UNTRAINED:
            layers = layers_read(checkpoint.read_config(weights.folder("eagle3", path)))
        self.needs = frozenset({"model", *(f"{HIDDEN}.{layer}" for layer in layers)})
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is not target:
            self._drafting = FeatureDrafting(self._read(target))
            self._target = target

    def propose(self, context: Context, pen: Pen) -> None:
        self._drafting.draft(context, pen, self._shape)

    def _read(self, target: Target) -> Eagle3Network:
        if self._path == weights.UNTRAINED:
            return fresh(target, Vocabulary(target.vocab_size), LOWEST)
        return read(weights.folder("eagle3", self._path), target)


def fresh(
    target: Target,
    vocabulary: Vocabulary,
    layers: Sequence[int],
    seed: int = 0,
    inner: int | None = None,
) -> Eagle3Network:
    """Returns a network that fits a target, with random weights.

    inner: the width of its feed-forward layer; the target's unless told.
    """
    sizes = LayerConfig.like(target.model.config.get_text_config(), inputs=2)
    if inner is not None:
        sizes = replace(sizes, intermediate_size=inner)
    return weights.untrained(lambda: Eagle3Network(sizes, target, vocabulary, layers), target, seed)


def default_layers(target: Target) -> tuple[int, int, int]:
    """Returns the low, middle and high states that EAGLE-3 reads of a target."""
    count = int(target.model.config.get_text_config().num_hidden_layers)
    return min(2, count - 1), count // 2, max(0, count - 3)


def layers_read(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the states that a checkpoint was trained on.

    Raises:
        ConfigError: the config does not say.
    """
    inner = config.get("eagle_config") or {}
    layers = config.get("eagle_aux_hidden_state_layer_ids") or inner.get(
        "eagle_aux_hidden_state_layer_ids"
    )
    if layers:
        return tuple(int(layer) for layer in layers)
    raise ConfigError(
        "drafter.path: config.json names no eagle_aux_hidden_state_layer_ids: expected the layers"
        " of the target that it was trained on, such as [2, 15, 27]"
    )


def read(place: Path, target: Target) -> Eagle3Network:
    """Returns the network in a folder, for a target."""
    config = checkpoint.read_config(place)
    # The speculators library keeps the layer's sizes apart.
    sizes = config.get("transformer_layer_config") or config
    weights.fits(place, sizes, target)
    file, tensors = checkpoint.tensors_in(place)
    shifts = tensors.pop("d2t", None)
    tensors.pop("t2d", None)
    vocabulary = Vocabulary(target.vocab_size)
    if shifts is not None:
        vocabulary = Vocabulary(target.vocab_size, torch.arange(len(shifts)) + shifts.long())
    tensors = {name: each for name, each in tensors.items() if name != "embed_tokens.weight"}
    layer = LayerConfig.read(sizes, target.model.config.get_text_config(), inputs=2)
    first = bool(config.get("norm_before_residual", False))
    reads = layers_read(config)
    return weights.filled(
        lambda: Eagle3Network(layer, target, vocabulary, reads, norm_first=first),
        target,
        checkpoint.renamed(tensors, {"midlayer.": "", "layers.0.": ""}),
        file,
    )


def save(network: Eagle3Network, target: Target, folder: Path) -> None:
    """Writes a network in the layout of the speculators library, in half precision."""
    config = speculators.config(
        target, network.sizes, len(network.vocabulary), list(network.layers)
    ) | {"norm_before_residual": network.norm_first}
    outer = ("fc.", "norm.", "lm_head.")
    tensors = {
        name if name.startswith(outer) else f"layers.0.{name}": tensor
        for name, tensor in network.state_dict().items()
    }
    ids = network.vocabulary.ids
    if ids is not None:
        tensors["d2t"] = ids.cpu() - torch.arange(len(ids))
        known = torch.zeros(network.vocabulary.size, dtype=torch.bool)
        known[ids.cpu()] = True
        tensors["t2d"] = known
    checkpoint.save(folder, tensors, config, torch.float16)


@hookimpl
def register_drafters(register: Register) -> None:
    register("eagle3", Eagle3)
