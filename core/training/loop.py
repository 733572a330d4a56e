"""The loop: steps of the optimizer, with what is needed to stop at any of them and go on."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, final

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from outrider.errors import ConfigError, is_int, require
from outrider.training.learner import Learner
from outrider.training.states import Batch, Examples
from outrider.training.whitening import Basis, WhitenedAdamW, bases

CURVE = "curve.jsonl"
CHECKPOINT = "checkpoint.pt"
PRECISIONS = ("full", "bf16")

MEASURED = 256
"""Texts from which a network's start and bases are computed."""

Loss = Callable[[Batch], Tensor]
Figures = dict[str, float]


@final
@dataclass(frozen=True, slots=True)
class Schedule:
    """How to train.

    epochs: over the texts. batch: texts a step. rate: the highest learning rate (AdamW), reached
    after `warmup` steps and left on a cosine. clip: of the gradient's norm.
    evaluate: steps between evaluations, each of which also writes a checkpoint.
    patience: evaluations without a better held-out loss after which to stop early.
    whitened: whether matrices learn in bases that make what they read vary more evenly.
    precision: of the products, "full" for that of the weights, or "bf16", which is twice as fast on
        a processor that has it.

    Raises `ConfigError` for what makes no sense.
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
        for name in ("epochs", "batch", "evaluate", "patience"):
            value = getattr(self, name)
            good = is_int(value) and value >= 1
            require(good, f"recipe.{name}", value, "a whole number of at least 1")
        known = self.precision in PRECISIONS
        require(known, "recipe.precision", self.precision, f"one of {', '.join(PRECISIONS)}")
        require(self.rate > 0, "recipe.rate", self.rate, "a number above 0")


def run(
    learned: Learner,
    examples: Examples,
    held: Examples,
    schedule: Schedule,
    folder: Path,
    console: Console,
    evaluate: Callable[[], Figures] = dict,
) -> list[Figures]:
    """Trains the learner in place, leaves it at its best held-out loss, and returns the curve.

    A run that broke off goes on from its last checkpoint in `folder`, with the same curve as if
    it had not.

    evaluate: what to measure besides the losses.

    Raises:
        ConfigError: the checkpoint is of another schedule, or a loss is no number.
    """
    from accelerate import Accelerator

    accelerator = Accelerator()
    half = schedule.precision == "bf16"
    network, loss = learned.network, learned.loss
    begun = (folder / CHECKPOINT).is_file()
    with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=half):
        found = {} if begun else _started(learned, examples, schedule, accelerator.device)
    optimizer = WhitenedAdamW(network, found, schedule.rate)
    network, optimizer = accelerator.prepare(network, optimizer)
    steps = schedule.epochs * math.ceil(len(examples.texts) / schedule.batch)
    progress = _Progress(network, optimizer, schedule, steps, folder)
    curve = progress.curve
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        shown = bar.add_task("Training", total=steps, completed=progress.step)
        for batch in _batches(examples, schedule, progress.step, steps):
            if progress.stale >= schedule.patience:
                break
            # Noise and samples depend on the step alone, so that a resumed run has the same.
            torch.manual_seed(schedule.seed * 1_000_003 + progress.step)
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate * _share(progress.step, schedule.warmup, steps)
            network.train()
            optimizer.zero_grad()
            with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=half):
                value = loss(batch.to(accelerator.device, _dtype(network)))
            accelerator.backward(value)
            accelerator.clip_grad_norm_(network.parameters(), schedule.clip)
            with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=half):
                optimizer.step()
            progress.step += 1
            progress.losses.append(float(value.detach()))
            bar.update(shown, advance=1, description=f"Training, loss {progress.losses[-1]:.3f}")
            if not math.isfinite(progress.losses[-1]):
                raise ConfigError(
                    f"recipe.rate={schedule.rate}: the loss is no number after {progress.step} steps"
                )
            if progress.step % schedule.evaluate == 0 or progress.step == steps:
                network.eval()
                figures = _held(loss, held, schedule, accelerator.device, _dtype(network))
                progress.note(figures | evaluate())
                _say(console, curve[-1])
    progress.best()
    network.eval()
    return curve


@final
class _Progress:
    """Where a run is, on disk after each evaluation."""

    def __init__(
        self, network: nn.Module, optimizer: Any, schedule: Schedule, steps: int, folder: Path
    ) -> None:
        self.step, self.stale = 0, 0
        self.losses: list[float] = []
        self.curve: list[Figures] = []
        self._network, self._optimizer, self._folder = network, optimizer, folder
        self._facts = {**asdict(schedule), "steps": steps}
        self._kept: dict[str, Tensor] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / CHECKPOINT).is_file():
            self._resume()

    def _resume(self) -> None:
        held = torch.load(self._folder / CHECKPOINT, weights_only=True)
        for name, value in held["facts"].items():
            now = self._facts.get(name)
            require(
                value == now, f"recipe.{name}", now, f"{value!r}, as the run that broke off has"
            )
        self._network.load_state_dict(held["network"])
        self._optimizer.load_state_dict(held["optimizer"])
        self.step, self.stale, self._kept = held["step"], held["stale"], held["best"]
        self.curve.extend(held["curve"])

    def note(self, figures: Figures) -> None:
        """Adds a point to the curve, and writes the checkpoint."""
        point = {"step": float(self.step), "loss": sum(self.losses) / len(self.losses)} | figures
        if not self.curve or figures["held_out"] < min(each["held_out"] for each in self.curve):
            self._kept, self.stale = _copied(self._network), 0
        else:
            self.stale += 1
        self.losses.clear()
        self.curve.append(point)
        scratch = self._folder / "unfinished"
        torch.save(
            {
                "facts": self._facts,
                "network": self._network.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "step": self.step,
                "stale": self.stale,
                "best": self._kept,
                "curve": self.curve,
            },
            scratch,
        )
        scratch.replace(self._folder / CHECKPOINT)
        lines = [json.dumps(each) + "\n" for each in self.curve]
        (self._folder / CURVE).write_text("".join(lines))

    def best(self) -> None:
        """Puts the weights of the best held-out loss back."""
        if self._kept:
            self._network.load_state_dict(self._kept)


def _started(
    learned: Learner, examples: Examples, schedule: Schedule, device: torch.device
) -> dict[str, Basis]:
    """Gives the network its start, and returns the bases in which its matrices are to learn."""

    def some() -> Iterator[Batch]:
        count = max(1, MEASURED // schedule.batch)
        for batch in islice(examples.batches(schedule.batch, schedule.seed), count):
            yield batch.to(device, _dtype(learned.network))

    learned.start(some())
    return bases(learned.network, learned.loss, some()) if schedule.whitened else {}


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def _batches(examples: Examples, schedule: Schedule, done: int, steps: int) -> Iterator[Batch]:
    each = steps // schedule.epochs
    for epoch in range(done // each if each else 0, schedule.epochs):
        for number, batch in enumerate(examples.batches(schedule.batch, schedule.seed + epoch)):
            if epoch * each + number >= done:
                yield batch


@torch.no_grad()
def _held(
    loss: Loss, held: Examples, schedule: Schedule, device: torch.device, dtype: torch.dtype
) -> Figures:
    torch.manual_seed(schedule.seed)
    values = [float(loss(batch.to(device, dtype))) for batch in held.batches(schedule.batch, 0)]
    return {"held_out": sum(values) / len(values)}


def _share(step: int, warmup: int, steps: int) -> float:
    """Returns what share of the highest rate a step has."""
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return 0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2


def _dtype(network: nn.Module) -> torch.dtype:
    return next(network.parameters()).dtype


def _say(console: Console, point: Figures) -> None:
    figures = ", ".join(f"{name} {value:.3f}" for name, value in point.items() if name != "step")
    console.print(f"step {point['step']:.0f}: {figures}", highlight=False)
