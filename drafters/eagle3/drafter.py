"""Eagle3: one decoder layer on low, middle and high states of the target drafts."""

from typing import Any, final

from outrider.contract.target import Target
from outrider.drafters.eagle3.network import Eagle3Network
from outrider.drafters.parts import checkpoint
from outrider.drafters.parts.networks import speculators, weights
from outrider.drafters.parts.networks.features import (
    LOWEST,
    FeatureDrafter,
    default_layers,
    state_names,
)


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
