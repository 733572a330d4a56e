"""A run as lines of JSON, for whatever reads a file that grows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import final

from outrider.base.folders import append_line
from outrider.extras.loggers.logger import Figures, Logger
from outrider.lab.runs.run import Run


@final
class JsonLines(Logger):
    """Appends a line for the settings of a run and one each time that figures are logged.

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
