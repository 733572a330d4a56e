"""Mtp: the target's layer for multi-token prediction drafts, fed with its own predictions."""

from typing import Any, final

from outrider.drafters.mtp.network import MtpNetwork
from outrider.drafters.parts.networks.features import FeatureDrafter
from outrider.targets.passes.cached_model import HIDDEN


@final
class Mtp(FeatureDrafter[MtpNetwork]):
    """Drafts with the target's layer for multi-token prediction (2412.19437).

    The checkpoints of DeepSeek-V3, GLM-4.5 and Qwen3-Next have such a layer, which transformers
    does not load. If there are several, the first one drafts all tokens.

    path: a folder with these tensors, such as one that `outrider train` has written for a target
        without them; "untrained" for random weights. Defaults to the folder of the target.
    tree: the shape of its drafts, see `drafters.parts.trees.tree_forms`. Defaults to a chain.

    Raises `ConfigError` in `bind` if there are no such tensors, or one does not fit the target.
    """

    needs: frozenset[str] = frozenset({"model", HIDDEN})

    def __init__(self, path: str | None = None, tree: Any = None) -> None:
        super().__init__(MtpNetwork, path, tree)
