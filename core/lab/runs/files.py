"""Files of runs: where they are, and what they may hold, checked whenever one is read."""

import json
import os
import stat
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from outrider.base.bounds import Budget, Count, DraftLength, Name, Whole
from outrider.base.contents import strict_json
from outrider.base.errors import ConfigError, message_of
from outrider.lab.measuring.measurement import Measurement

FACTS, LINES, LOCK = "run.json", "measurements.jsonl", "run.lock"
"""The files of a run: what it was started with, its measurements, and the lock of its process."""


def run_folders(folders: Iterable[Path]) -> list[Path]:
    """Returns the folders of all runs in some folders and below them, sorted, each once.

    Links to folders below them are not followed, and folders that can't be read are left out.
    """
    found = {
        Path(folder).resolve(): Path(folder)
        for top in folders
        for folder, names, files in os.walk(top)
        if FACTS in files or FACTS in names
    }
    return sorted(found.values())


def read_in(folder: Path, name: str) -> bytes | None:
    """Returns the content of a file in a run's folder, None if there is none.

    Raises `ConfigError` if it can't be read, is no file, or is a link that leaves the folder.
    """
    path = folder / name
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(folder.resolve()):
            raise ConfigError(f"{path}: leads to {real}, expected a file in this folder")
        # A pipe must not be waited for, so it is opened without and looked at then.
        descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{path}: damaged, expected a file")
            return file.read()
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path}: a link to nothing, expected a file") from None
        return None
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: can't be read, {reason}") from error


def stamp(folder: Path, name: str) -> tuple[int, float] | None:
    """Returns the size and the time of a file's last change, None if there is none."""
    try:
        found = (folder / name).stat()
    except (OSError, RuntimeError):
        return None
    return found.st_size, found.st_mtime


class _Facts(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Settings(_Facts):
    gamma: DraftLength
    budget: Budget | None = None
    max_new_tokens: Count | None = None
    together: Count = 1


class _Drafter(_Facts):
    drafter: dict[str, Any] | None = None
    gamma: DraftLength | None = None
    budget: Budget | None = None


_Question = Annotated[tuple[str, Whole, str], Field(strict=False)]


class _Run(_Facts):
    """The entries of `run.json` that every run has; others are kept as they are."""

    settings: _Settings
    drafters: Annotated[dict[Name, _Drafter], Field(min_length=1)]
    protocols: Annotated[list[Literal["overlap", "decode"]], Field(min_length=1)]
    questions: Annotated[list[_Question], Field(min_length=1)]
    lossless: dict[str, bool]


def read_facts(folder: Path) -> dict[str, Any]:
    """Returns the facts of a run.

    Raises `ConfigError` if there is none, or it is damaged; the message names file and entry.
    """
    content = read_in(folder, FACTS)
    if content is None:
        raise ConfigError(f"{str(folder)!r}: expected the folder of a run, with {FACTS} in it")
    try:
        facts: dict[str, Any] = strict_json(content)
        checked = _Run.model_validate(facts)
        missing = [name for name in checked.drafters if name not in checked.lossless]
        if missing:
            raise ValueError(f"lossless has no {missing[0]!r}")
        json.dumps(facts, ensure_ascii=False).encode()  # no halves of surrogate pairs
    except (ValueError, RecursionError) as error:
        reason = f"damaged, expected the facts of a run ({reason_of(error)})"
        raise ConfigError(f"{folder / FACTS}: {reason}") from error
    return facts


def read_measurement(
    line: bytes, facts: Mapping[str, Any], asked: AbstractSet[tuple[str, int]]
) -> Measurement:
    """Returns the measurement in a line; fields of later versions are ignored.

    asked: the prompt and turn of each question of the run.

    Raises `ValueError` if it is damaged, or not of this run; the message names the field.
    """
    try:
        measurement = Measurement.read(strict_json(line))
        found = (measurement.overlap, measurement.decoding, measurement.error)
        for holds, expected in (
            (found.count(None) == 2, "one of overlap, decoding and error"),
            (measurement.drafter in facts["drafters"], "a drafter of this run"),
            ((measurement.prompt, measurement.turn) in asked, "a question of this run"),
        ):
            if not holds:
                raise ValueError(f"expected {expected}")
    except (ValueError, RecursionError) as error:
        raise ValueError(reason_of(error)) from error
    return measurement


def reason_of(error: BaseException) -> str:
    """Returns an error in a few words: of many faults the first, with its place."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return message_of(error)[:200]
    first = errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}"[:200]
