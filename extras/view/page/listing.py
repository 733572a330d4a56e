"""Listing: the runs in some folders, as the first page shows them."""

import hashlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from pydantic import BaseModel, StrictStr

from outrider.base.bounds import Finite, Whole
from outrider.base.contents import strict_json
from outrider.base.errors import ConfigError
from outrider.lab.runs import files
from outrider.lab.runs.files import FACTS, LINES, read_facts, read_in, reason_of, stamp
from outrider.lab.runs.labels import date, model

SWEEP = "multirun.yaml"
"""The file that Hydra leaves in the folder of a sweep."""

ACTIVE_SECONDS = 120
"""An unfinished run that was not written to for this long counts as interrupted."""


@final
@dataclass(frozen=True, slots=True)
class Listed:
    """A run in the list.

    id: stands for its folder in addresses. first: the drafter with the largest speedup.
    doubts: why its times can't be trusted; empty if they can.
    """

    id: str
    folder: Path
    date: str
    state: str
    model: str
    drafters: list[str]
    gamma: str
    temperature: str
    prompts: int
    first: str
    speedup: float | None
    doubts: list[str]


class _Row(BaseModel):
    drafter: StrictStr
    speedup: Finite | None = None
    counts: dict[str, Whole] | None = None
    target_itself: bool = False
    trained_on: Whole = 0
    doubts: list[StrictStr] = []


class _Comparison(BaseModel):
    rows: list[_Row] = []
    failed: dict[StrictStr, StrictStr] = {}


def run_folders(folders: Sequence[Path]) -> dict[str, Path]:
    """Returns the folders of all runs in some folders and below them, by id."""
    runs = {run.resolve() for run in files.run_folders(folders)}
    return {hashlib.sha256(str(run).encode()).hexdigest()[:12]: run for run in sorted(runs)}


def listed(run_id: str, folder: Path) -> Listed:
    """Returns the line of a run in the list, from its small files.

    Raises `ConfigError` if they are damaged; the message names the file.
    """
    facts, found = read_facts(folder), _comparison(folder)
    timed = (row for row in found.rows if row.speedup is not None)
    drafted = [row for row in timed if row.counts and row.counts.get("drafted")]
    rows = [row for row in drafted if not (row.target_itself or row.trained_on)] or drafted
    settings, prompts = facts["settings"], {prompt for prompt, *_ in facts["questions"]}
    first = max(rows, key=lambda row: row.speedup or 0, default=None)
    return Listed(
        id=run_id,
        folder=folder,
        date=date(facts),
        state=_state(folder, facts, found.failed),
        model=model(settings),
        drafters=list(facts["drafters"]),
        gamma=str(settings.get("gamma", "")),
        temperature=str((settings.get("sampling") or {}).get("temperature", "")),
        prompts=len(prompts),
        first="" if first is None else first.drafter,
        speedup=None if first is None else first.speedup,
        doubts=list(dict.fromkeys(why for row in rows for why in row.doubts)),
    )


def run_name(folder: Path) -> str:
    """Returns the name of a run's folder, or of the one above it where this is a time or a number.

    >>> run_name(Path("outputs/demo/2026-11-27_10-17-29")), run_name(Path("runs/long-prompts"))
    ('demo', 'long-prompts')
    """
    names = [part for part in folder.parts if not re.fullmatch(r"[\d_-]+", part)]
    return names[-1]


def with_sweeps(runs: Sequence[Listed]) -> list[tuple[Path, Listed, list[Listed]]]:
    """Returns runs with the jobs of each of Hydra's sweeps together, the newest first.

    Each is a folder, the run in it with the largest speedup, and all runs; one if it is no sweep.
    """
    groups: dict[Path, list[Listed]] = {}
    for run in runs:
        parent = run.folder.parent
        groups.setdefault(parent if (parent / SWEEP).is_file() else run.folder, []).append(run)
    found = [
        (folder if jobs[1:] else jobs[0].folder, max(jobs, key=lambda it: it.speedup or 0), jobs)
        for folder, jobs in groups.items()
    ]
    return sorted(found, key=lambda group: max(job.date for job in group[2]), reverse=True)


def state(folders: Sequence[Path]) -> str:
    """Returns a text that changes when one of the runs makes progress."""
    return hashlib.sha256(repr([_stamps(folder) for folder in folders]).encode()).hexdigest()[:16]


def active(folder: Path) -> bool:
    """Returns whether an unfinished run was written to just now, so that it seems to be running."""
    return any(time.time() - stamp < ACTIVE_SECONDS for _, stamp in _stamps(folder))


def _stamps(folder: Path) -> list[tuple[int, float]]:
    return [found for name in (FACTS, LINES) if (found := stamp(folder, name)) is not None]


def _state(folder: Path, facts: Mapping[str, Any], failed: Iterable[str]) -> str:
    is_active, names = active(folder), ", ".join(failed)
    if names and not is_active:
        return f"{names} failed"
    total = len(facts["questions"]) * len(facts["drafters"]) * len(facts["protocols"])
    done = (read_in(folder, LINES) or b"").count(b"\n")
    if done >= total and not names:
        return "finished"
    return f"{'running' if is_active else 'unfinished'}, {100 * done // total}%"


def _comparison(folder: Path) -> _Comparison:
    """Returns what `comparison.json` says, if there is one.

    Raises `ConfigError` if it is damaged.
    """
    content = read_in(folder, "comparison.json")
    try:
        found = {} if content is None else strict_json(content)
        return _Comparison.model_validate(found)
    except (ValueError, RecursionError) as error:
        path = folder / "comparison.json"
        raise ConfigError(f"{path}: damaged, expected a comparison ({reason_of(error)})") from error
