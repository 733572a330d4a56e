"""PEagle: EAGLE-3's layer and mask tokens draft all tokens in one pass."""

from typing import Any, final

import torch

from outrider.contract.context import Context, Tokens
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.decoder_layers import LayerCaches
from outrider.drafters.parts.networks.features import LOWEST, default_layers, state_names
from outrider.drafters.parts.networks.trained import TrainedDrafter
from outrider.drafters.peagle.config import PEagleConfig
from outrider.drafters.peagle.network import PEagleNetwork


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
            self._layers = PEagleConfig.read(weights.folder("peagle", path)).layers
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
        rows = torch.tensor([tokens], device=states.device)
        after = network(states, rows, positions, None, self._caches)
        self._caches.crop(count)
        self._text = Tokens(text[:])
        self._shape.grow_at_once(pen, self._spread(network.logits(after[0, -pen.gamma :])))
