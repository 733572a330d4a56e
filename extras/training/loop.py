"""The training loop: steps of the optimizer, which can stop at any of them and continue later."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from outrider.base.errors import ConfigError, require
from outrider.base.waiting import bars
from outrider.extras.training.learner import Learner
from outrider.extras.training.progress import CHECKPOINT, Figures, Schedule, TrainingProgress
from outrider.extras.training.recipe import Log
from outrider.extras.training.states import Batch, Examples
from outrider.extras.training.whitening import Basis, WhitenedAdamW, whitening_bases

MEASURED = 256
"""The number of texts from which a network's start and bases are computed."""


def train_network(
    learner: Learner,
    examples: Examples,
    held_out: Examples,
    schedule: Schedule,
    *,
    folder: Path,
    evaluate: Callable[[], Figures] = dict,
    log: Log = lambda *_: None,
) -> list[Figures]:
    """Trains a network in place, leaves it at its best evaluation, and returns the curve.

    A run that was interrupted continues from the last checkpoint in `folder`, and has the same
    curve as one that was not. Weights in half precision become float32 (mixed precision).

    evaluate: returns what to measure besides the losses at each evaluation. Defaults to nothing.
    log: takes the figures of each evaluation, and its step.

    Raises `ConfigError` if the checkpoint belongs to another schedule, or a loss is not a finite
    number.
    """
    from accelerate import Accelerator

    accelerator = Accelerator()
    device = accelerator.device
    network, loss = learner.network, learner.loss
    own = next(network.parameters()).dtype
    dtype = torch.promote_types(own, torch.float32)
    is_mixed = dtype is not own or schedule.precision == "bf16"
    mixed = partial(torch.autocast, device.type, torch.bfloat16, enabled=is_mixed)
    network.to(dtype)  # in half precision, small steps would be lost in rounding

    def first_batches() -> Iterator[Batch]:
        count = max(1, MEASURED // schedule.batch)
        for batch in islice(examples.batches(schedule.batch, schedule.seed), count):
            yield batch.to(device, dtype)

    bases: dict[str, Basis] = {}
    if not (folder / CHECKPOINT).is_file():
        with mixed():
            learner.start(first_batches())
            bases = whitening_bases(network, loss, first_batches()) if schedule.whitened else {}
    optimizer = WhitenedAdamW(network, bases, schedule.rate)
    network, optimizer = accelerator.prepare(network, optimizer)
    steps = schedule.steps(len(examples.texts))
    progress = TrainingProgress(network, optimizer, schedule, steps, folder)
    with bars(stderr=False) as bar:
        task = bar.add_task("Training", total=steps, completed=progress.step)
        for batch in _remaining_batches(examples, schedule, progress.step, steps):
            if progress.stale >= schedule.patience:
                break
            # Noise and samples depend only on the step, so a resumed run draws the same ones.
            torch.manual_seed(schedule.seed * 1_000_003 + progress.step)
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate_at(progress.step, steps)
            network.train()
            optimizer.zero_grad()
            with mixed():
                value = loss(batch.to(device, dtype))
            if value.requires_grad:  # some text of the batch has a token that is learned
                accelerator.backward(value)
            accelerator.clip_grad_norm_(network.parameters(), schedule.clip)
            with mixed():
                optimizer.step()
            progress.step += 1
            progress.losses.append(float(value.detach()))
            bar.update(task, advance=1, description=f"Training, loss {progress.losses[-1]:.3f}")
            if not math.isfinite(progress.losses[-1]):
                raise ConfigError(
                    f"recipe.rate={schedule.rate}: the loss is not a number after"
                    f" {progress.step} steps: expected a rate at which training is stable"
                )
            if progress.step % schedule.evaluate == 0 or progress.step == steps:
                network.eval()
                learns = bool(progress.curve) or any(progress.losses)
                expected = "some that it learns from, these are too short"
                require(learns, "recipe.texts", len(examples.texts), expected)
                torch.manual_seed(schedule.seed)
                with mixed(), torch.no_grad():
                    batches = held_out.batches(schedule.batch, 0)
                    values = [float(loss(batch.to(device, dtype))) for batch in batches]
                progress.record({"held_out": sum(values) / len(values)} | evaluate())
                point = progress.curve[-1]
                told = [f"{name} {value:.3f}" for name, value in point.items() if name != "step"]
                bar.console.print(f"step {progress.step}: {', '.join(told)}")
                log({**point, "rate": group["lr"]}, progress.step)
    progress.restore_best()
    network.eval()
    return progress.curve


def _remaining_batches(
    examples: Examples, schedule: Schedule, done: int, steps: int
) -> Iterator[Batch]:
    """Yields the batches of all epochs, except the first `done` of `steps`."""
    in_epoch = steps // schedule.epochs
    for epoch in range(done // in_epoch if in_epoch else 0, schedule.epochs):
        for number, batch in enumerate(examples.batches(schedule.batch, schedule.seed + epoch)):
            if epoch * in_epoch + number >= done:
                yield batch
