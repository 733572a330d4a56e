"""The page that a finished run has kept, so that it opens at once however large the run is."""

import hashlib
import json
from functools import cache
from pathlib import Path

from outrider import __version__
from outrider.lab.runs.files import LINES, read_in, stamp
from outrider.lab.runs.schema import read_facts
from outrider.lab.runs.store import Run

PAGE = "report.html"
"""The file of the page."""


def page_key(run: Run) -> str:
    """Returns what the page of a run depends on, as one word: its files, and this version."""
    size = (stamp(run.folder, LINES) or (0, 0.0))[0]
    facts = json.dumps([run.facts, size, _sources()])
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


def stored_page(run_folder: Path) -> str | None:
    """Returns the page in a run's folder; None if it isn't that of the run as it is now."""
    content = read_in(run_folder, PAGE)
    key = page_key(Run(run_folder, read_facts(run_folder), ()))
    if content is None or f'content="{key}"'.encode() not in content[:1000]:
        return None
    return content.decode()


@cache
def _sources() -> str:
    """Returns a hash of what makes pages, so that another version makes its own."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(Path(__file__).parents[1].rglob("*")):
        if path.suffix in (".py", ".jinja"):
            digest.update(path.read_bytes())
    return digest.hexdigest()
