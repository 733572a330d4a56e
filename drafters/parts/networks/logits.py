"""How a target scales and caps the products of its head, for drafters that borrow it."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from outrider.base.errors import ConfigError, OutriderError, message_of
from outrider.contract.draft import Draft
from outrider.contract.target import Target
from outrider.targets.passes.cached_model import HIDDEN


@final
@dataclass(frozen=True, slots=True)
class LogitRule:
    """Scales the products of a head's matrix, and then caps them softly.

    scale: Cohere multiplies by `logit_scale`, and Granite divides by `logits_scaling`.
    cap: Gemma 2 and its kin take cap * tanh(logits / cap); None for no cap.
    """

    scale: float = 1.0
    cap: float | None = None

    @classmethod
    def of(cls, target: Target) -> "LogitRule":
        """Returns the rule of a target, from its model's config."""
        config = target.model.config.get_text_config()
        scale = float(getattr(config, "logit_scale", None) or 1.0)
        scaling = float(getattr(config, "logits_scaling", None) or 1.0)
        scale *= scaling if config.model_type.startswith("hyperclovax") else 1 / scaling
        cap = getattr(config, "final_logit_softcapping", None)
        return cls(scale, float(cap) if cap else None)

    def __call__(self, products: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns the logits for the products of a head."""
        logits = products if self.scale == 1.0 else products * self.scale
        if self.cap is None:
            return logits
        # A drafter may rule tokens out, which a cap would bring back.
        return (torch.tanh(logits / self.cap) * self.cap).masked_fill(logits.isneginf(), -math.inf)


PLAIN = LogitRule()
"""Leaves the products unchanged."""


@torch.no_grad()
def require_readable(target: Target, needs: frozenset[str]) -> None:
    """Raises `ConfigError` unless the hidden states in `needs` have a row for each token."""
    names = frozenset(name for name in needs if name.startswith(HIDDEN))
    size = target.vocab_size
    name = type(target.model).__name__
    if missing := ", ".join(sorted(names - target.offers)):
        layers = sum(offer.startswith(f"{HIDDEN}.") for offer in target.offers)
        raise ConfigError(f"target: the drafter reads {missing}, and {name} has {layers} layers")
    tokens = [size // 2, size // 3]
    try:
        session = target.open(target.begin(tokens)[0], names)
        session.score(Draft())
        features = session.features()
    except OutriderError:
        raise
    except Exception as error:  # noqa: BLE001  states of other kinds fail in any way
        line = message_of(error)[:100]
        raise ConfigError(f"target: the hidden states of {name} can't be read ({line})") from None
    width = int(target.model.config.get_text_config().hidden_size)
    for feature, states in features.items():
        if tuple(states.shape) != (len(tokens), width):
            raise ConfigError(
                f"target: the {feature} of {name} are of shape {tuple(states.shape)}: expected"
                f" {(len(tokens), width)}, a row for each token"
            )
