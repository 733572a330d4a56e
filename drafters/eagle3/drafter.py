"""Eagle3: one decoder layer on low, middle and high states of the target drafts."""

from collections.abc import Sequence
from typing import Any, final

from torch import Tensor
from torch.nn.functional import embedding

from outrider.drafters.eagle3.shared import FusionNetwork, StatesDrafter
from outrider.drafters.parts.networks.features import FeatureDrafter, FeatureNetwork
from outrider.drafters.parts.networks.layer import Ids, KeysAndValues, Sees, State, States


@final
class Eagle3Network(FusionNetwork, FeatureNetwork):
    """Runs token and state side by side through one layer (2503.01840, section 3.1).

    Its output is fed back to it, and the head reads the output through a norm; in EAGLE-3.1 the
    normed output is fed back.
    """

    family = "eagle3"

    def states(self, features: Sequence[State]) -> State:
        return self.fused(features)

    def forward(
        self, states: States, tokens: Ids, positions: Ids, sees: Sees, cache: KeysAndValues
    ) -> States:
        words = embedding(tokens, self._embedding)
        out: Tensor = self.layers[0](words, states, positions, sees, cache)
        return self.norm(out) if self.config.norm_output else out


@final
class Eagle3(StatesDrafter[Eagle3Network], FeatureDrafter[Eagle3Network]):
    """Drafts token by token on several states of the target (EAGLE-3, 2503.01840).

    path: a folder that `outrider train` has written, one of SafeAILab's EAGLE-3, SpecForge's,
        AngelSlim's or NVIDIA's in the same layout, or an eagle3 of the speculators library,
        EAGLE-3.1 among them; "untrained" for random weights. Defaults to the weights for SmolLM2
        that come with the package.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.
    """

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        super().__init__(Eagle3Network, path, tree)
