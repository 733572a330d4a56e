"""Classifier: drafts on while a small trained network foresees that the token will be accepted."""

from collections.abc import Mapping
from pathlib import Path
from typing import final

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from outrider.contract.draft import Draft
from outrider.contract.policy import Policy
from outrider.errors import ConfigError, require
from outrider.plugins.hookspecs import Register, hookimpl

FORMAT = "outrider-classifier-1"
FEATURES = 6
"""Of a token: its log-probability, those of the three likeliest, the entropy, its place."""
LEAST = -30.0
"""What a log-probability counts at least, so that none is infinite."""


@final
class Classifier(Policy):
    """Stops behind a token that is too likely to be rejected (DISCO, 2405.04304, Section 3).

    The token itself stays in the draft, since it was drawn. A token that was written has no
    features, and never stops a draft.

    path: the file that `outrider train recipe=classifier` has written.
    threshold: drafts on while the token is accepted with at least this probability.

    Raises `ConfigError` for a file that is missing or something else, or a threshold outside [0, 1].
    """

    def __init__(self, path: str, threshold: float = 0.4) -> None:
        within = 0 <= threshold <= 1
        require(within, "policy.threshold", threshold, "a number in [0, 1]")
        self._weights = load(path)
        self._threshold = threshold

    def depth(self, gamma: int) -> int:
        return gamma

    def more(self, draft: Draft) -> bool:
        seen = features(draft)
        return seen is None or float(foresee(self._weights, seen)) >= self._threshold


def features(draft: Draft) -> Float[Tensor, "features"] | None:
    """Returns what is to be known of the newest token of a draft; None where it was written."""
    logits = draft.logits[-1]
    if logits is None:
        return None
    logs = logits.double().log_softmax(-1)
    likeliest = logs.new_full((3,), LEAST)
    best = logs.topk(min(3, len(logs))).values
    likeliest[: len(best)] = best
    entropy = torch.special.entr(logs.exp()).sum()
    own = logs[draft.tokens[-1]]
    place = own.new_tensor(len(draft))
    return torch.stack([own, *likeliest, entropy, place]).clamp(min=LEAST).cpu()


def foresee(
    weights: Mapping[str, Tensor], seen: Float[Tensor, "*n features"]
) -> Float[Tensor, "*n"]:
    """Returns the probability that tokens with these features are accepted."""
    x = (seen - weights["mean"]) / weights["scale"]
    x = torch.relu(x @ weights["w1"] + weights["b1"])
    return torch.sigmoid(x @ weights["w2"] + weights["b2"]).squeeze(-1)


def save(weights: dict[str, Tensor], path: Path, facts: Mapping[str, str]) -> None:
    """Writes the weights as safetensors; facts: what to say of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(weights, path, metadata={"format": FORMAT, **facts})


def load(path: str) -> dict[str, Tensor]:
    """Returns the weights in a file that `save` wrote.

    Raises:
        ConfigError: the file is missing, damaged, or something else.
    """
    place = Path(path).expanduser()
    require(place.is_file(), "policy.path", path, "a file that exists")
    try:
        with safe_open(place, "pt") as file:
            if (file.metadata() or {}).get("format") != FORMAT:
                raise ConfigError(f"policy.path={path!r}: expected a trained classifier")
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  no dict
    except SafetensorError as error:
        line = " ".join(str(error).split())
        raise ConfigError(f"policy.path={path!r} can't be read: {line}") from error


@hookimpl
def register_policies(register: Register) -> None:
    register("classifier", Classifier)
