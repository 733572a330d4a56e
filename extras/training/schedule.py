"""How long to train, in what steps, and at what learning rate."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, final

from outrider.base.bounds import Above, AtLeast, Count, checked


@final
@checked("recipe")
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

    epochs: Count = 2
    batch: Count = 8
    rate: Annotated[float, Above(0)] = 1e-3
    warmup: Annotated[int, AtLeast(0)] = 20
    clip: float = 0.5
    evaluate: Count = 50
    patience: Count = 4
    whitened: bool = False
    precision: Literal["full", "bf16"] = "full"
    seed: int = 0

    def steps(self, texts: int) -> int:
        """Returns the number of steps over `texts` texts, all epochs together."""
        return self.epochs * math.ceil(texts / self.batch)

    def rate_at(self, step: int, steps: int) -> float:
        """Returns the learning rate of a step out of `steps`."""
        if step < self.warmup:
            return self.rate * ((step + 1) / self.warmup)
        done = (step - self.warmup) / max(1, steps - self.warmup)
        return self.rate * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)
