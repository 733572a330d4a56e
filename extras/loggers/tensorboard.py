"""A run in TensorBoard's files."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, final

from outrider.extras.loggers.logger import Figures, Logger, name_of
from outrider.lab.runs.run import Run


@final
class TensorBoard(Logger):
    """Writes an event file into a folder of `folder` that has the name of the run's.

    folder: what `tensorboard --logdir` is given.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = Path(folder)

    def open(self, run: Run, settings: Mapping[str, str]) -> None:
        module = import_module("torch.utils.tensorboard")
        self._writer: Any = module.SummaryWriter(str(self._folder / name_of(run)))
        lines = "\n".join(f"    {name}: {value}" for name, value in settings.items())
        self._writer.add_text("settings", lines)

    def log(self, figures: Figures, step: int) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name.replace(" ", "_"), value, step)

    def close(self, *, finished: bool) -> None:
        self._writer.close()
