"""PEagle: EAGLE-3's layer and mask tokens draft all tokens in one pass."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.context import Context, Tokens
from outrider.contract.devices import placed
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.eagle3.config import Eagle3Config
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.decoder_layers import DecoderLayer, FusionLayer, LayerCaches
from outrider.drafters.parts.networks.features import LOWEST, default_layers, state_names
from outrider.drafters.parts.networks.layer import Ids, RMSNorm, Sees, States
from outrider.drafters.parts.networks.trained import TrainedDrafter, TrainedNetwork
from outrider.drafters.parts.networks.vocabulary import Vocabulary


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
        config: Eagle3Config | None = None,
        words: Float[Tensor, "vocab width"] | None = None,
    ) -> None:
        super().__init__()
        config = config or Eagle3Config.like(target)
        self.vocabulary = vocabulary
        self.config: Eagle3Config = config
        self.reads: tuple[str, ...] = state_names(config.layers)
        width, normed = config.sizes.hidden_size, config.norms.heads
        self.fc: nn.Linear = nn.Linear(len(self.reads) * width, width, bias=False)
        self.mask_hidden: nn.Parameter = nn.Parameter(torch.randn(1, 1, self.fc.in_features))
        first = FusionLayer(config.sizes, norm_first=config.norms.first, normed=normed)
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
        config = Eagle3Config.read(folder, target, cls.family)
        file, tensors, vocabulary = speculators.read_tensors(folder, target)
        tensors = checkpoint.replace_prefixes(tensors, {"midlayer.": "layers.0."})
        words = weights.own_embedding(tensors, file, target)
        if "mask_hidden" in tensors:  # checkpoints differ in the number of its dimensions
            tensors["mask_hidden"] = tensors["mask_hidden"].reshape(1, 1, -1)
        norms = replace(config.norms, heads="layers.0.self_attn.q_norm.weight" in tensors)
        config = replace(config, norms=norms)
        return cls.with_tensors(tensors, file, target, vocabulary, config=config, words=words)

    def save_checkpoint(self, folder: Path, target: Target) -> None:
        """Writes the network in the layout of the speculators library, in half precision."""
        tensors = self.state_dict() | speculators.vocabulary_tensors(self.vocabulary)
        tensors |= self._own_tables
        config = self.config.stored(self.family, target, len(self.vocabulary))
        checkpoint.write_checkpoint(folder, tensors, config, torch.float16)


@final
class PEagle(TrainedDrafter[PEagleNetwork]):
    """Drafts all tokens in one pass on the target's states (P-EAGLE, 2602.01469).

    No token depends on those drawn before it in the draft.

    path: a folder that `outrider train` has written, or a peagle of the speculators library;
        "untrained" for random weights.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` if the weights don't fit the target; it names the tensor.
    """

    def __init__(self, path: str, tree: Any = None) -> None:
        super().__init__(PEagleNetwork, path, tree)
        self._layers: tuple[int, ...] | None = LOWEST
        if path != weights.UNTRAINED:
            folder = weights.folder("peagle", path)
            self._layers = speculators.layers_read(folder, checkpoint.read_config(folder))
        # The default depends on the target, so that it is known only in `bind`.
        self.needs: frozenset[str] = frozenset({"model", *state_names(self._layers or ())})

    def bind(self, target: Target) -> None:
        if self._layers is None:
            self.needs = frozenset({"model", *state_names(default_layers(target))})
        super().bind(target)

    def _start(self) -> None:
        self._caches = LayerCaches(self._network.config.decoders)
        self._text = Tokens([])

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        network, text = self._network, context.tokens
        features = [context.features[name] for name in network.reads if name in context.features]
        if not pen.open or len(features) < len(network.reads):
            return  # the target has not read the prompt yet
        # Each position takes its states and the token after it. The last one is always fed again,
        # since the caches hold no states.
        count, masks = len(text) - 1, pen.gamma - 1
        known = max(0, min(self._text.shared(text) - 1, count - 1, len(self._caches)))
        self._caches.crop(known)
        self._text = Tokens([])  # an interrupted pass leaves the caches in an unknown state
        states = network.states([rows[None, known:count] for rows in features], masks)
        tokens = [*text[known + 1 :], *[network.config.mask] * masks]
        positions = torch.arange(known, count + masks, device=states.device)[None]
        rows = placed(tokens, states.device)[None]
        after = network(states, rows, positions, None, self._caches)
        self._caches.crop(count)
        self._text = Tokens(text[:])
        self._shape.grow_at_once(pen, self._spread(network.logits(after[0, -pen.gamma :])))
