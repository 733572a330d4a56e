"""PEagle: EAGLE-3's layer and mask tokens draft all tokens in one pass."""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from outrider.contract.context import Context, Tokens
from outrider.contract.devices import placed
from outrider.contract.pen import Pen
from outrider.contract.programs import at_once
from outrider.contract.target import Target
from outrider.drafters.eagle3.shared import FusionNetwork, StatesDrafter
from outrider.drafters.parts.networks.decoder_layers import LayerCaches
from outrider.drafters.parts.networks.layer import Ids, Sees, States
from outrider.drafters.parts.networks.text_rows import TextRows
from outrider.drafters.parts.networks.vocabulary import Vocabulary


@final
class PEagleNetwork(FusionNetwork):
    """Predicts several tokens after a text, all but the first at masks (2602.01469, section 3).

    A token of the text and the target's states before it run side by side, as in EAGLE-3. Masks
    have a learned state instead. The tensors are those of the speculators library's P-EAGLE.
    """

    family = "peagle"

    def __init__(self, target: Target, vocabulary: Vocabulary, **options: Any) -> None:
        super().__init__(target, vocabulary, **options)
        self.mask_hidden: nn.Parameter = nn.Parameter(torch.randn(1, 1, self.fc.in_features))

    def states(self, features: Sequence[States], masks: int) -> States:
        """Returns the input states of some tokens, and of masks after them.

        features: the target's before each token, in the order of `reads`.
        masks: the number of masks.
        """
        fused, learned = self.fused(features), self.fc(self.mask_hidden)
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


@final
class MaskRows(TextRows):
    """Drafts for any texts in one pass, in which masks follow each of them."""

    def _read(
        self, ids: Ids, slots: Ids, *features: States, width: int, rows: slice = slice(None)
    ) -> States:
        return self._feed(self._network.states(features, 0), ids, slots, width, rows)

    def _program(
        self, depth: int, width: int, numbers: Int[Tensor, "texts count+3"], *features: States
    ) -> Any:
        first, last, ids = numbers[:, :1], numbers[:, 1:2], numbers[:, 2:-1]
        network, masks = self._network, depth - 1
        states = network.states(features, masks)
        places = torch.arange(states.shape[1], device=ids.device)
        is_mask = places > last  # also for what comes after the last mask
        ids = pad(ids, (0, masks)).masked_fill(is_mask, network.config.mask)
        states = states[:, -1:].where(is_mask[..., None], states)
        after = self._feed(states, ids, first + places, width)
        drafted = after.take_along_dim((last + places[:depth])[..., None], 1)
        return at_once(self._spread(network.logits(drafted)).transpose(0, 1))


@final
class PEagle(StatesDrafter[PEagleNetwork]):
    """Drafts all tokens in one pass on the target's states (P-EAGLE, 2602.01469).

    No token depends on those drawn before it in the draft.

    path: a folder that `outrider train` has written, or a peagle of the speculators library;
        "untrained" for random weights.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.
    """

    def __init__(self, path: str, tree: Any = None) -> None:
        super().__init__(PEagleNetwork, path, tree)

    def _start(self) -> None:
        layers = self._network.config.decoders
        self._rows = MaskRows(self._network, self._spread, self._programs, layers=layers)
        self._caches, self._text = LayerCaches(layers), Tokens([])

    @torch.no_grad()
    def propose(self, context: Context, pen: Pen) -> None:
        network, text = self._network, context.tokens
        features = [context.features[name] for name in network.reads if name in context.features]
        if not pen.open or len(features) < len(network.reads):
            return  # the target has not read the prompt yet
        if self._rows.grow([(context, pen)], self._shape):
            return
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
