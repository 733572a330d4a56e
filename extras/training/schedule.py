"""Schedules: how long to train, in what steps, and at what learning rate."""

import math
from dataclasses import dataclass
from typing import final

from outrider.base.errors import is_int, require

PRECISIONS = ("full", "bf16")


@final
@dataclass(frozen=True, slots=True)
class Schedule:
    """How to train.

    epochs: passes over the texts.
    batch: texts in a step.
    rate: the highest learning rate of AdamW.
    warmup: the steps in which the rate rises to it; a cosine then leads down.
    clip: the largest norm of the gradient.
    evaluate: steps between evaluations; each evaluation also writes a checkpoint.
    patience: training stops after this many evaluations without a better held-out loss.
    whitened: whether matrices learn in bases in which their inputs vary more evenly.
    precision: of matrix products, "full" for that of the weights, or "bf16", which is twice as
        fast on processors that support it. Weights in half precision learn as float32, with
        products in bf16.

    Raises `ConfigError` for settings that make no sense.
    """

    epochs: int = 2
    batch: int = 8
    rate: float = 1e-3
    warmup: int = 20
    clip: float = 0.5
    evaluate: int = 50
    patience: int = 4
    whitened: bool = False
    precision: str = "full"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (
            ("epochs", self.epochs),
            ("batch", self.batch),
            ("evaluate", self.evaluate),
            ("patience", self.patience),
        ):
            is_valid = is_int(value) and value >= 1
            require(is_valid, f"recipe.{name}", value, "a whole number of at least 1")
        is_known = self.precision in PRECISIONS
        require(is_known, "recipe.precision", self.precision, f"one of {', '.join(PRECISIONS)}")
        require(self.rate > 0, "recipe.rate", self.rate, "a number above 0")

    def steps(self, texts: int) -> int:
        """Returns the number of steps over `texts` texts, all epochs together."""
        return self.epochs * math.ceil(texts / self.batch)

    def rate_at(self, step: int, steps: int) -> float:
        """Returns the learning rate of a step out of `steps`."""
        if step < self.warmup:
            return self.rate * ((step + 1) / self.warmup)
        done = (step - self.warmup) / max(1, steps - self.warmup)
        return self.rate * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)
