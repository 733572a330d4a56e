"""EarlyExit: the target's first layers draft, on the target's own keys and values of the text."""

import copy
from collections.abc import Sequence
from typing import Any, Self, final

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, require
from outrider.contract.context import Context, Features
from outrider.contract.draft import Draft
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.contract.target import Target
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import weights
from outrider.drafters.parts.networks.adapter import TABLE, Adapter
from outrider.drafters.parts.networks.entries import read_fields
from outrider.drafters.parts.networks.features import state_names
from outrider.drafters.parts.networks.logits import require_readable
from outrider.drafters.parts.networks.shared_kv import SharedKVDrafting
from outrider.drafters.parts.trees.tree_forms import parse_tree
from outrider.targets.passes.cached_model import CACHE
from outrider.targets.passes.engine import MODULES, engine_of
from outrider.targets.passes.first_layers import first_layers, without_final_norm

UNTRAINED_LAYERS = 2
"""The layers below an adapter with random weights, as in Kangaroo for a target of 32 layers."""


@final
class EarlyExit(Drafter):
    """Drafts with the target's first layers.

    They start each draft on the target's own keys and values, so that only drafted tokens are
    computed; a target that transformers' modules run goes on behind them. Their output goes to the
    target's head (LayerSkip, 2404.16710), or to a small adapter that was trained to predict the
    target's tokens (Kangaroo, 2404.18911). A target that was trained to exit early needs no
    adapter. The policy `confidence` stops a draft early, as both papers do.

    layers: how many of the target's layers draft. Defaults to those below the adapter, and without
        an adapter to four fifths of all layers.
    path: the folder of an adapter, which `outrider train` has written, or Kangaroo's with an entry
        "exit_layer" in its config; "untrained" for random weights. Defaults to no adapter.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`; each depth takes one
        pass. Defaults to a chain.

    Raises `ConfigError` if `layers` is not the adapter's number, and in `bind` if the target can't
    be cut after its first layers, or the adapter does not fit.
    """

    autoregressive = True

    @checked("drafter")
    def __init__(
        self, layers: Count | None = None, path: str | None = None, tree: Any = None
    ) -> None:
        self._path, self._shape = path, parse_tree(tree)
        self.kind: str = self._shape.kind
        self._layers = layers
        self.needs: frozenset[str] = frozenset({"model", CACHE})
        if path is not None:
            below = layers or UNTRAINED_LAYERS
            if path != weights.UNTRAINED:
                folder = weights.folder(Adapter.family, path)
                below = read_fields(folder, checkpoint.read_config(folder), TABLE)["layers"]
                expected = f"{below}, as below the adapter"
                require(layers in (None, below), "drafter.layers", layers, expected)
            self._layers = below
            self.needs |= set(state_names([below]))
        self._target: Target | None = None

    def bind(self, target: Target) -> None:
        if self._target is target:
            return
        self._target = None  # until everything is loaded, since loading may be interrupted
        adapter: Adapter | None = None
        if self._path is None:
            model = first_layers(target.model, self._layers)
        else:
            require_readable(target, self.needs)
            adapter = Adapter.load(self._path, target, layers=self._layers)
            model = without_final_norm(target.model, adapter.layers)
        self.models: Sequence[Any] = (model,)
        self._drafting = SharedKVDrafting(model, target.vocab_size, self._shape, adapter)
        if not self._drafting.can_start(target):
            raise ConfigError(
                f"drafter early_exit: {type(target.model).__name__} can't draft on its own cache;"
                " drafter=small_lm with drafter.layers has a cache of its own"
            )
        can_resume = self.kind == "chain" and engine_of(model) is MODULES  # others run all layers
        self._hands_over = can_resume and self._drafting.is_resumed(target)
        self._target = target

    def open(self) -> Self:
        text = copy.copy(self)
        text._drafting = self._drafting.fresh()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        self._drafting.propose_batch([(context, pen)])

    def propose_batch(self, pairs: Sequence[tuple[Context, Pen]]) -> None:
        self._drafting.propose_batch(pairs)

    def computed(self, context: Context, draft: Draft) -> Features | None:
        if not self._hands_over:
            return None
        return self._drafting.computed([*context.tokens, *draft.tokens], len(draft) + 1)
