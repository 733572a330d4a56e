"""How long to train and in what steps, and how far a run has come, on disk so that it continues."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, final

import torch
from torch import Tensor, nn

from outrider.base.bounds import Count, checked
from outrider.base.errors import ConfigError, message_of, refusing, require
from outrider.base.expectations import Above, AtLeast
from outrider.base.folders import replacing, write_whole

CURVE = "curve.jsonl"
CHECKPOINT = "checkpoint.pt"

KEPT = ("step", "stale", "best", "curve")
"""What a checkpoint holds of the progress itself, beside its facts and two states."""

Figures = dict[str, float]
"""What was measured, by name."""


@final
@checked("recipe")
@dataclass(frozen=True, slots=True)
class Schedule:
    """How to train.

    epochs, batch: passes over the texts, and texts in a step.
    rate: the highest learning rate of AdamW.
    warmup: the steps in which the rate rises to it; a cosine then leads down.
    clip: the largest norm of the gradient.
    evaluate: steps between evaluations; each evaluation also writes a checkpoint.
    patience: training stops after this many evaluations without a better held-out loss.
    whitened: whether matrices learn in bases in which their inputs vary more evenly.
    precision: of matrix products, "full" for that of the weights, or "bf16", which is twice as
        fast on processors that support it. Weights in half precision learn as float32, with
        products in bf16.
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


@final
class TrainingProgress:
    """How far a run has come. It continues from the checkpoint in its folder, if there is one.

    step: the number of steps done.
    stale: the number of evaluations since the best one.
    losses: those of the steps since the last evaluation.
    curve: what was measured at each evaluation.
    best: the network's state at the best one.

    Raises `ConfigError` if the checkpoint belongs to another schedule, or is damaged.
    """

    def __init__(
        self, network: nn.Module, optimizer: Any, schedule: Schedule, steps: int, folder: Path
    ) -> None:
        self.step: int = 0
        self.stale: int = 0
        self.losses: list[float] = []
        self.curve: list[Figures] = []
        self.best: dict[str, Tensor] = {}
        self._network, self._optimizer, self._folder = network, optimizer, folder
        self._facts = {**asdict(schedule), "steps": steps}
        if (folder / CHECKPOINT).is_file():
            self._resume()

    def _resume(self) -> None:
        checkpoint = _load(self._folder / CHECKPOINT)
        for name, stored in checkpoint["facts"].items():
            value = self._facts.get(name)
            expected = f"{stored!r}, as in the interrupted run"
            require(stored == value, f"recipe.{name}", value, expected)
        path = self._folder / CHECKPOINT
        with refusing(f"{path}: expected a network of the same shape", RuntimeError):
            self._network.load_state_dict(checkpoint["network"])
        self._optimizer.load_state_dict(checkpoint["optimizer"])
        for name in KEPT:
            setattr(self, name, checkpoint[name])

    def record(self, figures: Figures) -> None:
        """Adds a point to the curve, and writes a checkpoint.

        figures: what was measured. The weights with the highest "block_efficiency" are the best, or
            with the lowest loss "held_out" where drafts were not measured: acceptance may still
            rise when the loss has begun to.
        """
        point = {"step": float(self.step), "loss": sum(self.losses) / len(self.losses)} | figures
        if not self.curve or _merit(figures) > max(map(_merit, self.curve)):
            state = self._network.state_dict()
            self.best = {name: tensor.detach().clone() for name, tensor in state.items()}
            self.stale = 0
        else:
            self.stale += 1
        self.losses.clear()
        self.curve.append(point)
        checkpoint = {
            "facts": self._facts,
            "network": self._network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            **{name: getattr(self, name) for name in KEPT},
        }
        with replacing(self._folder / CHECKPOINT) as scratch:
            torch.save(checkpoint, scratch)
        lines = [json.dumps(past) + "\n" for past in self.curve]
        write_whole(self._folder / CURVE, "".join(lines))

    def restore_best(self) -> None:
        """Gives the network the best weights."""
        if self.best:
            self._network.load_state_dict(self.best)


def _merit(figures: Figures) -> float:
    return figures.get("block_efficiency", -figures["held_out"])


def _load(path: Path) -> dict[str, Any]:
    """Returns the checkpoint in a file; raises `ConfigError` if it is damaged."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and pickle raise many types
        reason = message_of(error).partition(". ")[0]
        raise ConfigError(
            f"{path}: damaged, expected a checkpoint ({reason}); delete it to train from the first"
            " step"
        ) from error
    if not (
        isinstance(checkpoint, dict)
        and checkpoint.keys() >= {"facts", "network", "optimizer", *KEPT}
    ):
        raise ConfigError(f"{path}: expected a checkpoint of `outrider train`")
    return checkpoint
