"""Prints runs of `outrider compare` in the layout of a paper, after a sweep or for `report`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, final

from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.table import Table

from outrider.base.bounds import OneOf, check
from outrider.base.folders import write_whole
from outrider.base.terminal import divided, plain, remarks, results
from outrider.extras.view.across import gather
from outrider.extras.view.layouts import FIGURES, TABLES
from outrider.extras.view.plotting import as_png
from outrider.lab.runs.summary import Summary

NAMES = (*TABLES, *FIGURES)


@final
class PrintLayout(Callback):  # type: ignore[misc, unused-ignore]
    """Hydra's callback that prints the runs of a sweep in a layout, once the last has ended."""

    def __init__(self, layout: str) -> None:
        self.layout = layout

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        print_layout(self.layout, [Summary(run) for run in gather([folder])[0]], folder)


def print_layout(name: str, summaries: Sequence[Summary], folder: Path) -> None:
    """Prints a table, or writes a figure to `folder` and prints its path.

    Raises:
        ConfigError: there is no such layout.
    """
    for table in layout(name, summaries, folder):
        results().print(*divided(table))


def layout(name: str, summaries: Sequence[Summary], folder: Path) -> list[Table]:
    """Returns the tables of a layout; a figure has none, and is written as `print_layout` does.

    Raises:
        ConfigError: there is no such layout.
    """
    check({"layout": Annotated[str, OneOf(NAMES)]}, {"layout": name})
    measured = [summary for summary in summaries if summary.rows]
    if name in TABLES:
        return [TABLES[name](measured)]
    path = folder / f"{name}.png"
    write_whole(path, as_png(FIGURES[name](measured)))
    remarks(stderr=False).print(plain(path), soft_wrap=True)
    return []
