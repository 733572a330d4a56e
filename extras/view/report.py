"""One self-contained page about any number of runs, with its figures; and a run's tables."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

from outrider.base.folders import write_whole
from outrider.extras.view.page.contents import drawings, runs_page
from outrider.extras.view.paper_figures import chen_figure1
from outrider.extras.view.plotting import as_png
from outrider.lab.runs.frames import tables
from outrider.lab.runs.report import Report
from outrider.lab.runs.summary import Summary


@final
class Page(Report):
    """The page of the runs, with each of its figures beside it."""

    layouts: Any = MappingProxyType({"chen_figure1": lambda runs: as_png(chen_figure1(runs))})

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> tuple[Path, ...]:
        return (write_report(summaries, folder),) if summaries else ()


def write_report(summaries: Mapping[str, Summary], folder: Path) -> Path:
    """Writes `report.html`, which needs no other file, and each figure beside it as PNG.

    summaries: by the run's label.
    """
    drawn = drawings(summaries)
    for name, figure in drawn.items():
        write_whole(folder / f"{name}.png", as_png(figure))
    path = folder / "report.html"
    write_whole(path, runs_page(summaries, drawn))
    return path


@final
class Tables(Report):
    """The tables of a run, beside its measurements.

    They are `comparison.parquet`, a row for each question and drafter, and `rounds.parquet`.
    """

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> tuple[Path, ...]:
        from pyarrow import parquet

        for summary in summaries.values():
            if summary.run.folder == folder:
                for name, table in tables(summary.run).items():
                    parquet.write_table(table, folder / f"{name}.parquet")
        return ()
