"""A run in Weights & Biases."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, final

from outrider.extras.loggers.logger import Figures, Logger, name_of
from outrider.lab.runs.run import Run


@final
class Wandb(Logger):
    """Logs to a project; `WANDB_MODE=offline` keeps the run on this machine.

    project: its name.
    """

    def __init__(self, project: str) -> None:
        super().__init__()
        self._project = project

    def open(self, run: Run, settings: Mapping[str, str]) -> None:
        self._log: Any = import_module("wandb").init(
            project=self._project, name=name_of(run), config=dict(settings), dir=run.folder
        )

    def log(self, figures: Figures, step: int) -> None:
        self._log.log(dict(figures), step=step)

    def close(self, *, finished: bool) -> None:
        self._log.finish(exit_code=0 if finished else 1)
