"""The reports of a run: those that a setting names, or all that are installed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outrider.base.errors import ConfigError
from outrider.base.terminal import remark
from outrider.lab.runs.report import Report, Reports
from outrider.lab.runs.run import Run
from outrider.plugins.config import build
from outrider.plugins.entry import Entry
from outrider.plugins.registry import installed
from outrider.plugins.source import REQUIRED, parameters_of


def chosen_reports(
    configs: Mapping[str, Any] | None = None, *, later: str | None = None
) -> Reports:
    """Returns the reports, as one that says in a line which of them failed.

    configs: theirs, by name; None for every report that is installed and needs no settings.
    later: how to make one later whose library is missing, for a line that says so. None for none.
    """
    if configs is None:
        made = {name: _made(entry, later) for name, entry in installed().of("report").items()}
        return Reports({name: report for name, report in made.items() if report})
    return Reports({name: build(config) for name, config in configs.items()})


@contextmanager
def following(reports: Reports, folder: Path, settings: Mapping[str, Any]) -> Iterator[None]:
    """Has reports follow a run that compares no drafters, and prints the files that they wrote.

    settings: plain values.
    """
    with reports.following(Run(folder, {"settings": settings}, ())):
        yield
    for path in reports.end({}, folder):
        remark(path, stderr=False)


def _made(entry: Entry, later: str | None) -> Report | None:
    try:
        if any(default is REQUIRED for default in parameters_of(entry).values()):
            return None
        entry.check_extra()
    except ConfigError as error:
        if later is not None:
            remark(f"{error}{later}")
        return None
    report: Report = entry.factory()
    return report
