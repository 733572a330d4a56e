"""Loggers: a file of JSON lines, TensorBoard, Weights & Biases and MLflow."""

import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, final

from outrider.base.folders import append_line
from outrider.contract.round import Counts
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.runs.labels import flatten
from outrider.lab.runs.report import Report
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary

Figures = Mapping[str, float]
"""By name, such as "eagle/speedup"."""

LONGEST_KEY = 200
"""The last characters of a name, which are kept; MLflow takes 250."""


class Logger(Report):
    """Logs the figures of the run that it follows; `outrider report` has it log nothing.

    After each text: tokens per call and speedup of its drafter over all texts so far. At the
    end: every rate, with the ends of its interval as `_low` and `_high`. Of a run that compares no
    drafters: what its command logs.
    """

    def __init__(self) -> None:
        self._run: Run | None = None
        self._step = 0
        self._sums: dict[str, tuple[Counts, float, float]] = {}
        self._keys: dict[str, str] = {}

    def begin(self, run: Run) -> None:
        self._run = run
        self.open(run, {name: str(value) for name, value in flatten(run.facts["settings"])})
        for measurement in run.measurements:  # of a run that is resumed
            self._add(measurement)

    def add(self, measurement: Measurement) -> None:
        self._add(measurement)
        if measurement.drafter in self._sums:  # which has written a text
            counts, seconds, plain = self._sums[measurement.drafter]
            rates = {"tokens_a_call": counts.emitted / max(1, counts.rounds)}
            rates["speedup"] = plain / seconds
            place = f"{measurement.drafter}/so_far"
            self.log({f"{place}/{name}": rate for name, rate in rates.items()}, self._step)

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> Sequence[Path]:
        if self._run is None:
            return ()
        for summary in summaries.values():
            self.log(final_figures(summary), self._step)
        self.close(finished=True)
        return ()

    def stop(self) -> None:
        if self._run is not None:
            self.close(finished=False)

    @abstractmethod
    def open(self, run: Run, settings: Mapping[str, str]) -> None:
        """Begins to log a run. settings: by dotted name."""

    @abstractmethod
    def log(self, figures: Figures, step: int) -> None:
        """Logs figures. step: how many measurements there are, or steps of another command."""

    def keyed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns values under names that every library takes, which may read them as paths.

        Letters, digits and "_-." are kept, no part is empty or made of dots, and no two names fall
        together.
        """
        found: dict[str, Any] = {}
        for name, value in values.items():
            parts = (re.sub(r"[^\w.-]", "_", part) for part in name.split("/"))
            key = "/".join(part if part.strip(".") else f"_{part}" for part in parts)
            key = key[-LONGEST_KEY:].lstrip("/")
            while self._keys.setdefault(key, name) != name:
                key += "_"
            found[key] = value
        return found

    def close(self, *, finished: bool) -> None:
        """Ends the log. finished: whether the run came to its end."""

    def _add(self, measurement: Measurement) -> None:
        self._step += 1
        text = measurement.decoding
        if text is None:
            return
        counts, seconds, plain = self._sums.get(measurement.drafter, (Counts(), 0.0, 0.0))
        plain += text.plain_seconds * text.counts.emitted
        self._sums[measurement.drafter] = counts + text.counts, seconds + text.seconds, plain


def name_of(run: Run) -> str:
    """Returns the last two parts of a run's folder: a job of a sweep is only called by its number.

    >>> name_of(Run(Path("multirun/sweep/0"), {}, ()))
    'sweep/0'
    """
    return "/".join(run.folder.parts[-2:])


def final_figures(summary: Summary) -> Figures:
    """Returns the rates of a run, by drafter and name."""
    figures: dict[str, float] = {}
    for row in summary.rows:
        for name, rate in row.rates.items():
            figures |= {} if rate is None else rate.named(f"{row.drafter}/{name}")
    return figures


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
