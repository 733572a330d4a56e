"""One self-contained page about any number of runs, with its figures.

A finished run keeps its page, so that a server opens it at once however large the run is.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

import platformdirs

from outrider import __version__
from outrider.base.folders import write_whole
from outrider.extras.view.page.contents import drawings, runs_page
from outrider.extras.view.paper_figures import chen_figure1
from outrider.extras.view.plotting import as_png
from outrider.lab.runs.files import LINES, read_facts, read_in, stamp
from outrider.lab.runs.frames import tables
from outrider.lab.runs.report import Report
from outrider.lab.runs.run import Run
from outrider.lab.runs.summary import Summary

PAGE = "report.html"
"""The file of the page."""

SEAL = "<!-- kept by "
"""What follows at the page's end: the version that made it, and a code that only this user has."""


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
    path, page = folder / PAGE, runs_page(summaries, drawn)
    runs = [summary.run for summary in summaries.values()]
    if len(runs) == 1 and runs[0].finished:
        page += f"{SEAL}{sources_hash()} {_code(page, runs[0], sources_hash())} -->"
    write_whole(path, page)
    return path


def stored_page(run_folder: Path) -> tuple[str, bool] | None:
    """Returns the page in a run's folder, and whether this version of Outrider has made it.

    None if it isn't this user's own of the run as it is.
    """
    page, _, seal = (read_in(run_folder, PAGE) or b"").decode(errors="replace").rpartition(SEAL)
    sources, _, code = seal.removesuffix(" -->").partition(" ")
    expected = _code(page, Run(run_folder, read_facts(run_folder), ()), sources)
    if not hmac.compare_digest(code.encode(), expected.encode()):
        return None
    return page, sources == sources_hash()


def _code(page: str, run: Run, sources: str) -> str:
    """Returns what only this user can say of a page, of the run's files and what made it."""
    size = (stamp(run.folder, LINES) or (0, 0.0))[0]
    content = json.dumps([page, run.facts, size, sources])
    return hmac.new(user_key(), content.encode(), "sha256").hexdigest()


@cache
def user_key() -> bytes:
    """Returns this user's own random key, from the cache; that of this process if there is none."""
    path = Path(platformdirs.user_cache_path("outrider")) / "pages.key"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
            new.write(secrets.token_bytes(32))
    with suppress(OSError), path.open("rb") as file:
        found, key = os.fstat(file.fileno()), file.read()
        is_own = os.name != "posix" or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
        if is_own and len(key) == 32:
            return key
    return secrets.token_bytes(32)


@cache
def sources_hash() -> str:
    """Returns a hash of what makes pages, by which those of other versions are known."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in (".py", ".jinja"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


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
