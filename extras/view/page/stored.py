"""The page that a finished run has kept, so that it opens at once however large the run is."""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

from outrider import __version__
from outrider.lab.runs.files import LINES, read_in, stamp
from outrider.lab.runs.run import Run
from outrider.lab.runs.schema import read_facts

PAGE = "report.html"
"""The file of the page."""


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
    for path in sorted(Path(__file__).parents[1].rglob("*")):
        if path.suffix in (".py", ".jinja"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]
