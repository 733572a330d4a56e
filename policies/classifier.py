"""Drafts on while a small trained network expects the newest token to be accepted."""

from collections.abc import Mapping
from pathlib import Path
from typing import final

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from outrider.base.bounds import ExistingFile, Share, checked
from outrider.base.errors import ConfigError, refusing
from outrider.base.folders import replacing
from outrider.contract.devices import wide
from outrider.contract.draft import Draft
from outrider.policies.nodes import NodePolicy

FORMAT = "outrider-classifier-1"
FEATURES = 6
"""A token's features: its log-probability, those of the three likeliest, the entropy, its depth."""
MIN_LOG_PROB = -30.0
"""The lower bound that log-probabilities are clamped to, so that none is infinite."""


@final
class Classifier(NodePolicy):
    """Stops after a token that is too likely to be rejected (DISCO, 2405.04304, Section 3).

    The token itself stays in the draft, since it was drawn. A token that was written, not drawn,
    has no features and never stops a draft. A tree goes on while it has a branch in which every
    token is likely enough to be accepted.

    path: a file that `outrider train recipe=classifier` wrote.
    threshold: the least probability of acceptance at which to draft on, in [0, 1].

    Raises `ConfigError` if the file is missing or not a classifier.
    """

    @checked("policy")
    def __init__(self, path: ExistingFile, threshold: Share = 0.4) -> None:
        super().__init__(self._foresee)
        self._weights = load_weights(path)
        self._threshold = threshold

    def is_good(self, value: float) -> bool:
        return value >= self._threshold

    def _foresee(self, draft: Draft, node: int) -> float:
        of_token = features(draft, node)
        return 1.0 if of_token is None else float(foresee(self._weights, of_token))


def features(draft: Draft, node: int) -> Float[Tensor, "features"] | None:
    """Returns the features of a node of a draft; None if its token was written, not drawn."""
    logits = draft.logits[node]
    if logits is None:
        return None
    logs = wide(logits).log_softmax(-1)
    likeliest = logs.new_full((3,), MIN_LOG_PROB)
    best = logs.topk(min(3, len(logs))).values
    likeliest[: len(best)] = best
    entropy = torch.special.entr(logs.exp()).sum()
    own = logs[draft.tokens[node]]
    depth = own.new_tensor(len(draft.path(node)))
    return torch.stack([own, *likeliest, entropy, depth]).clamp(min=MIN_LOG_PROB).cpu().double()


def foresee(
    weights: Mapping[str, Tensor], tokens: Float[Tensor, "*n features"]
) -> Float[Tensor, "*n"]:
    """Returns the predicted probability of acceptance for tokens with these features."""
    x = (tokens - weights["mean"]) / weights["scale"]
    x = torch.relu(x @ weights["w1"] + weights["b1"])
    return torch.sigmoid(x @ weights["w2"] + weights["b2"]).squeeze(-1)


def save_weights(weights: dict[str, Tensor], path: Path, metadata: Mapping[str, str]) -> None:
    """Writes the weights as safetensors, with some more metadata."""
    with replacing(path) as scratch:
        save_file(weights, scratch, metadata={"format": FORMAT, **metadata})


def load_weights(path: str) -> dict[str, Tensor]:
    """Returns the weights in a file that `save_weights` wrote.

    Raises `ConfigError` if the file is missing, damaged, or not a classifier.
    """
    expanded = Path(path).expanduser()
    line = f"policy.path={path!r} can't be read"
    with refusing(line, SafetensorError), safe_open(expanded, "pt") as file:
        if (file.metadata() or {}).get("format") != FORMAT:
            raise ConfigError(f"policy.path={path!r}: expected a trained classifier")
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
