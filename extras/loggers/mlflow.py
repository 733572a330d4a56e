"""A run in MLflow."""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, final

from outrider.extras.loggers.logger import Figures, Logger, name_of
from outrider.lab.runs.run import Run


@final
class MLflow(Logger):
    """Logs to an experiment, where `MLFLOW_TRACKING_URI` says: a server or a database.

    experiment: its name; it is made if there is none.
    """

    def __init__(self, experiment: str) -> None:
        super().__init__()
        self._experiment = experiment
        self._mlflow: Any = None

    def open(self, run: Run, settings: Mapping[str, str]) -> None:
        self._mlflow = import_module("mlflow")
        self._mlflow.set_experiment(self._experiment)
        self._mlflow.start_run(run_name=name_of(run))
        self._mlflow.log_params(dict(settings))

    def log(self, figures: Figures, step: int) -> None:
        allowed = {re.sub(r"[^\w\-. :/]", "_", name): value for name, value in figures.items()}
        self._mlflow.log_metrics(allowed, step=step)

    def close(self, *, finished: bool) -> None:
        self._mlflow.end_run("FINISHED" if finished else "KILLED")
