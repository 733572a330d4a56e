"""One self-contained page about any number of runs, with its figures.

A finished run keeps its page, so that a server opens it at once however large the run is.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import final

from outrider import __version__
from outrider.base.folders import write_whole
from outrider.extras.view.chen_figure import chen_figure1
from outrider.extras.view.page.contents import drawings, runs_page
from outrider.extras.view.plotting import as_png
from outrider.lab.runs.files import LINES, read_in, stamp
from outrider.lab.runs.report import Report
from outrider.lab.runs.run import Run
from outrider.lab.runs.schema import read_facts
from outrider.lab.runs.summary import Summary

PAGE = "report.html"
"""The file of the page."""


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


@final
@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page in a run's folder. is_current: whether this version of Outrider has made it."""

    html: str
    is_current: bool


def page_key(run: Run) -> str:
    """Returns what the page of a run depends on, as two words: its files, and this version."""
    size = (stamp(run.folder, LINES) or (0, 0.0))[0]
    facts = json.dumps([run.facts, size])
    return f"{hashlib.sha256(facts.encode()).hexdigest()[:32]} {_sources()}"


def stored_page(run_folder: Path) -> StoredPage | None:
    """Returns the page in a run's folder; None if it isn't that of the run as it is now."""
    content = read_in(run_folder, PAGE)
    if content is None:
        return None
    found = re.search(rb'content="(\w+) (\w+)"', content[:1000])
    files, sources = page_key(Run(run_folder, read_facts(run_folder), ())).encode().split()
    if found is None or found[1] != files:
        return None
    return StoredPage(content.decode(), is_current=found[2] == sources)


@cache
def _sources() -> str:
    """Returns a hash of what makes pages, by which those of other versions are known."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".jinja"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]
