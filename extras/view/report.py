"""One self-contained page about any number of runs, with its figures."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import final

from outrider.base.folders import write_whole
from outrider.extras.view.chen_figure import chen_figure1
from outrider.extras.view.page.contents import drawings, runs_page
from outrider.extras.view.page.stored import PAGE, page_key
from outrider.extras.view.plotting import as_png
from outrider.lab.runs.report import Report
from outrider.lab.runs.summary import Summary


@final
class Page(Report):
    """The page of the runs, with each of its figures beside it."""

    layouts = MappingProxyType({"chen_figure1": lambda runs: as_png(chen_figure1(runs))})

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> tuple[Path, ...]:
        return (write_report(summaries, folder),) if summaries else ()


def write_report(summaries: Mapping[str, Summary], folder: Path) -> Path:
    """Writes `report.html`, which needs no other file, and each figure beside it as PNG.

    summaries: by the run's label.
    """
    drawn = drawings(summaries)
    for name, figure in drawn.items():
        write_whole(folder / f"{name}.png", as_png(figure))
    path = folder / PAGE
    runs = [summary.run for summary in summaries.values()]
    key = page_key(runs[0]) if len(runs) == 1 and runs[0].finished else ""
    write_whole(path, runs_page(summaries, drawn, key=key))
    return path
