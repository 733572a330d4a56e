"""The report that keeps a run as parquet files."""

from collections.abc import Mapping
from pathlib import Path
from typing import final

from outrider.lab.runs.frames import tables
from outrider.lab.runs.report import Report
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary


@final
class Tables(Report):
    """The tables of a run, beside its measurements."""

    def end(self, summaries: Mapping[str, Summary], folder: Path) -> tuple[Path, ...]:
        for summary in summaries.values():
            if summary.run.folder == folder:
                write_parquet(summary.run, folder)
        return ()


def write_parquet(run: Run, folder: Path) -> None:
    """Writes `comparison.parquet`, a row for each question and drafter, and `rounds.parquet`."""
    from pyarrow import parquet

    for name, table in tables(run).items():
        parquet.write_table(table, folder / f"{name}.parquet")
