"""Where runs are logged: a file of JSON lines, TensorBoard, Weights & Biases and MLflow."""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, final

from outrider.base.folders import append_line
from outrider.extras.loggers.logger import Figures, Logger, name_of
from outrider.lab.runs.run import Run


@final
class JsonLines(Logger):
    """Appends a line for a run's settings, and one each time that figures are logged.

    path: the file; several runs may share it, since each line has the run's folder.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path, self._folder = Path(path), ""

    def open(self, run: Run, settings: Mapping[str, str]) -> None:
        self._folder = str(run.folder)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._write({"settings": settings})

    def log(self, figures: Figures, step: int) -> None:
        self._write({"step": step, "figures": figures})

    def _write(self, content: Mapping[str, object]) -> None:
        append_line(self._path, json.dumps({"run": self._folder, **content}))


@final
class TensorBoard(Logger):
    """Writes an event file, into a folder of `folder` that has the name of the run's.

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
        for name, value in self.keyed(figures).items():
            self._writer.add_scalar(name, value, step)

    def close(self, *, finished: bool) -> None:
        self._writer.close()


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
        self._mlflow.log_params(self.keyed(settings))

    def log(self, figures: Figures, step: int) -> None:
        self._mlflow.log_metrics(self.keyed(figures), step=step)

    def close(self, *, finished: bool) -> None:
        self._mlflow.end_run("FINISHED" if finished else "KILLED")
