"""Files of runs: where they are, and what they may hold, checked whenever one is read."""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from outrider.base.bounds import Budget, Count, DraftLength, Finite, Name, Whole
from outrider.base.contents import strict_json
from outrider.base.errors import ConfigError, message_of
from outrider.contract.round import ROOT
from outrider.lab.measuring.measurement import Measurement, Step

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


Config = dict[str, Any]

SLACK = 1.001
"""How far sums of probabilities may be off by rounding."""


class _Facts(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Sampling(_Facts):
    temperature: float | None = None


class _Settings(_Facts):
    gamma: DraftLength
    budget: Budget | None = None
    max_new_tokens: Count | None = None
    together: Count = 1
    shard: Annotated[str, Field(pattern=r"^\d{1,9}/\d{1,9}$")] | None = None
    target: Config | None = None
    sampling: _Sampling | None = None
    verifier: Config | None = None
    policy: Config | None = None


_Question = Annotated[tuple[str, Whole, str], Field(strict=False)]


class _Drafter(_Facts):
    drafter: Config | None = None
    gamma: DraftLength | None = None
    budget: Budget | None = None


class _Identity(_Facts):
    outrider: Config | None = None
    libraries: dict[str, str] | None = None


class _End(_Facts):
    load: Finite | None = None


class _Start(_End):
    command: str | None = None
    date: str | None = None
    cores: Whole | None = None
    runs_by: dict[str, str] = {}


class _Run(_Facts):
    """The entries of `run.json` that are read; others are kept as they are."""

    settings: _Settings
    drafters: Annotated[dict[Name, _Drafter], Field(min_length=1)]
    protocols: Annotated[list[Literal["overlap", "decode"]], Field(min_length=1)]
    questions: Annotated[list[_Question], Field(min_length=1)]
    lossless: dict[str, bool]
    remember: list[str] = []
    target_itself: list[str] = []
    trained_on: dict[str, list[str]] = {}
    reference: str | None = None
    identity: _Identity | None = None
    starts: list[_Start] = []
    ends: list[_End] = []
    apart: list[str] = []


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
        for holds, expected in _rules(measurement, facts, asked):
            if not holds:
                raise ValueError(f"expected {expected}")
    except (ValueError, RecursionError) as error:
        raise ValueError(reason_of(error)) from error
    return measurement


Rules = Iterator[tuple[bool, str]]
"""Whether something holds, and what is expected."""


def _rules(
    measurement: Measurement, facts: Mapping[str, Any], asked: AbstractSet[tuple[str, int]]
) -> Rules:
    """Yields how the parts of a measurement have to fit each other, and the run."""
    overlap, decoding = measurement.overlap, measurement.decoding
    held = [part for part in (overlap, decoding, measurement.error) if part is not None]
    yield len(held) == 1, "one of overlap, decoding and error"
    yield measurement.drafter in facts["drafters"], "a drafter of this run"
    yield (measurement.prompt, measurement.turn) in asked, "a question of this run"
    settings, own = facts["settings"], facts["drafters"][measurement.drafter]
    if overlap is not None:
        gamma = own.get("gamma") or settings["gamma"]
        for name in ("prefixes", "reached", "beta", "rounds", "tested", "accepted"):
            yield len(getattr(overlap, name)) >= gamma, f"{name} of {gamma} depths"
        rows = zip(overlap.prefixes, overlap.reached, overlap.beta, strict=False)
        yield all(0 <= b <= r * SLACK <= p * SLACK**2 for p, r, b in rows), "beta <= reached"
        yield len(overlap.survived) in (0, gamma * (gamma + 3) // 2), "survived by gamma"
        yield from _lengths(overlap, "survived ended", "text text_p text_q")
    if decoding is not None:
        yield len(decoding.steps) > 0, "decoding.steps that are not empty"
        seconds = (decoding.seconds, decoding.plain_seconds, decoding.plain_call)
        yield min(*seconds, *decoding.repeats, *decoding.plain_repeats) > 0, "seconds above 0"
        written = sum(len(step.tokens) for step in decoding.steps)
        yield written <= (settings.get("max_new_tokens") or written), "at most max_new_tokens"
        budgets = (own.get("budget"), settings.get("budget"), own.get("gamma"), settings["gamma"])
        for step in decoding.steps:
            yield from _rules_of(step, len(step.proposed) or next(filter(None, budgets)))


def _rules_of(step: Step, most: int) -> Rules:
    yield from _lengths(step, "tokens origins pieces", "proposed parents")
    is_ordered = step.accepted <= step.tested <= step.drafted <= most
    yield is_ordered, f"accepted <= tested <= drafted <= {most}"
    yield step.accepted <= len(step.tokens), "accepted tokens among the tokens"
    yield max(step.siblings, default=0) <= most, f"at most {most} siblings"
    yield 0 <= len(step.siblings) - len(step.ranks) <= 1, "a rank for each accepted token"
    pairs = zip(step.ranks, step.siblings, strict=False)
    yield all(0 <= rank < width for rank, width in pairs), "ranks below the siblings"
    yield all(-1 <= parent < node for node, parent in enumerate(step.parents)), "parents"
    node = ROOT
    for rank in step.ranks if step.parents else ():
        children = [child for child, parent in enumerate(step.parents) if parent == node]
        yield rank < len(children), "ranks of nodes"
        node = children[rank]


def _lengths(part: Any, *groups: str) -> Rules:
    """Yields that the fields in each group are equally long."""
    for group in groups:
        first, *others = group.split()
        for name in others:
            is_same = len(getattr(part, name)) == len(getattr(part, first))
            yield is_same, f"{name} as long as {first}"


def reason_of(error: BaseException) -> str:
    """Returns an error in a few words: of many faults the first, with its place."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return message_of(error)[:200]
    first = errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}"[:200]
