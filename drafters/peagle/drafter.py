"""PEagle: EAGLE-3's layer and mask tokens draft all tokens in one pass."""

from collections.abc import Sequence
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from outrider.contract.context import Context, Tokens
from outrider.contract.devices import placed
from outrider.contract.pen import Pen
from outrider.contract.programs import at_once
from outrider.contract.target import Target
from outrider.drafters.eagle3.shared import FusionNetwork, StatesDrafter
from outrider.drafters.parts.networks.decoder_layers import LayerCaches
from outrider.drafters.parts.networks.layer import Ids, Sees, Slots, States
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
        self._caches = self._emptied(partial(LayerCaches, self._network.config.decoders))
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
        known, mask = self._known(text), network.config.mask
        if self._replayed(pen, text, features, self._caches, [mask] * masks):
            return
        self._caches.crop(known)
        self._text = Tokens([])  # an interrupted pass leaves the caches in an unknown state
        states = network.states([rows[None, known:count] for rows in features], masks)
        tokens = [*text[known + 1 :], *[mask] * masks]
        positions = torch.arange(known, count + masks, device=states.device)[None]
        rows = placed(tokens, states.device)[None]
        after = network(states, rows, positions, None, self._caches)
        self._caches.crop(count)
        self._text = Tokens(text[:])
        self._shape.grow_at_once(pen, self._spread(network.logits(after[0, -pen.gamma :])))

    def _known(self, text: Tokens) -> int:
        """Returns how many positions of a text are in the caches, and need not be fed again."""
        return max(0, min(self._text.shared(text) - 1, len(text) - 2, len(self._caches)))

    def _program(self, buffers: Sequence[Tensor], first: Tensor, *features: Tensor) -> Any:
        """Reads the last rows of a text and the masks; returns the logits of the draft's tokens."""
        network, masks = self._network, len(first) - 1 - len(features[0])
        slots = first[0] + torch.arange(len(first) - 1, device=first.device)
        states = network.states([rows[None] for rows in features], masks)
        sees, caches = Slots(buffers[:2], slots).sees(), LayerCaches.at(buffers, slots)
        after = network(states, first[None, 1:], slots[None], sees, caches)
        return at_once(self._spread(network.logits(after[0, -masks - 1 :])))
