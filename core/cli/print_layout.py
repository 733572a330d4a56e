"""Prints the runs of a sweep in the layout of a paper, once the last has ended."""

from pathlib import Path
from typing import Any, final

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from outrider.base.terminal import results
from outrider.cli.commands.report import layout
from outrider.cli.reports import chosen_reports
from outrider.lab.runs.gathering import gather
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.terminal import shown


@final
class PrintLayout(Callback):  # type: ignore[misc, unused-ignore]
    """Hydra's callback of the experiments in `conf/experiment`. layout: as of `outrider report`."""

    def __init__(self, layout: str) -> None:
        self.layout = layout

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        summaries = [Summary(run) for run in gather([folder])[0]]
        for table in layout(self.layout, summaries, folder, chosen_reports()):
            results().print(*shown(table))
