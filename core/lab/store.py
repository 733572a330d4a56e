"""Store: a run's folder, where each measurement is saved as soon as it is made."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.errors import ConfigError, OutriderError, require
from outrider.lab.measurement import Measurement

FACTS, LINES = "run.json", "measurements.jsonl"
"""The files of a run: what it was started with, and its measurements."""


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is on disk, finished or not.

    facts: what it was started with: `settings`, `drafters` (the configs of each drafter, its rule
        and its policy), `protocols`, `questions`, and `lossless` for each drafter.
    """

    folder: Path
    facts: Mapping[str, Any]
    measurements: tuple[Measurement, ...]

    @property
    def drafters(self) -> list[str]:
        """Returns the drafters' names, in the order of the settings."""
        return list(self.facts["drafters"])

    @property
    def prompts(self) -> list[str]:
        """Returns the ids of all prompts, measured or not."""
        return list(dict.fromkeys(prompt for prompt, *_ in self.facts["questions"]))

    @property
    def finished(self) -> bool:
        """Returns whether every question was measured with every drafter by every protocol."""
        total = len(self.facts["questions"]) * len(self.drafters) * len(self.facts["protocols"])
        return len(self.measurements) == total


@final
class RunFolder:
    """A run in progress: the measurements made so far, and the folder that takes the others.

    Raises:
        ConfigError: the folder holds a run with other facts, or holds one and `resume` is false.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        # As JSON gives them back: tuples become lists.
        self.facts: dict[str, Any] = json.loads(json.dumps(facts))
        self._lines = path / LINES
        saved: tuple[Measurement, ...] = ()
        if (path / FACTS).is_file():
            run = load(path)
            require(resume, "resume", resume, f"true, since {path} holds a run already")
            _check_same(run.facts, self.facts, path)
            saved = _complete_questions(run)
        self.measurements = list(saved)
        (path / FACTS).write_text(json.dumps(self.facts, indent=1))
        scratch = self._lines.with_suffix(".new")
        scratch.write_text("".join(map(_line, saved)), encoding="utf-8")
        scratch.replace(self._lines)

    def add(self, measurement: Measurement) -> None:
        """Saves a measurement."""
        self.measurements.append(measurement)
        with self._lines.open("a", encoding="utf-8") as file:
            file.write(_line(measurement))

    @property
    def run(self) -> Run:
        """Returns the run in its present state."""
        return Run(self.path, self.facts, tuple(self.measurements))


def load(folder: Path) -> Run:
    """Returns the run in a folder, finished or not.

    A last line that the end of the process cut short is ignored.

    Raises:
        ConfigError: there is no run, or it is damaged; the message names file and line.
    """
    path = folder / FACTS
    if not path.is_file():
        raise ConfigError(f"{str(folder)!r}: expected the folder of a run, with {FACTS} in it")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(facts, dict) and facts.keys() >= {"drafters", "questions", "protocols"}
    except (json.JSONDecodeError, AssertionError) as error:
        raise ConfigError(f"{path}: damaged, expected the facts of a run") from error
    measurements = []
    lines = (folder / LINES).read_text(encoding="utf-8") if (folder / LINES).is_file() else ""
    for number, line in enumerate(lines.splitlines(keepends=True), start=1):
        if not line.endswith("\n"):
            break
        try:
            measurements.append(Measurement.read(json.loads(line)))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{folder / LINES}, line {number}: damaged, expected a measurement"
            ) from error
    return Run(folder, facts, tuple(measurements))


def gather(folders: Sequence[Path]) -> list[Run]:
    """Returns the runs in the given folders and below them.

    Raises:
        ConfigError: a folder does not exist, or holds no run.
    """
    runs = []
    for folder in folders:
        require(folder.is_dir(), "report", str(folder), "a folder that exists")
        run_folders = sorted({path.parent for path in folder.rglob(FACTS)})
        if not run_folders:
            raise ConfigError(f"{str(folder)!r}: expected a run of `outrider compare` in it")
        runs += [load(run_folder) for run_folder in run_folders]
    return runs


def unfinished(folder: Path) -> Path | None:
    """Returns the newest unfinished run directly below `folder`, or None."""
    runs = [path.parent for path in sorted(folder.glob(f"*/{FACTS}"))]
    for run in sorted(runs, key=lambda run: (run / FACTS).stat().st_mtime, reverse=True):
        try:
            if not load(run).finished:
                return run
        except OutriderError:
            continue
    return None


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values in nested mappings, each with its dotted key."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def _complete_questions(run: Run) -> tuple[Measurement, ...]:
    """Returns the measurements of the questions that all drafters have finished.

    The other questions are measured again with all drafters: times are only comparable within one
    question.
    """
    counts: dict[tuple[str, str, int], int] = {}
    for measurement in run.measurements:
        key = (measurement.protocol, measurement.prompt, measurement.turn)
        counts[key] = counts.get(key, 0) + 1
    return tuple(
        measurement
        for measurement in run.measurements
        if counts[measurement.protocol, measurement.prompt, measurement.turn] == len(run.drafters)
    )


def _check_same(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raises `ConfigError` if a run's facts have changed; the message names the first change."""
    old, new = dict(flatten(saved)), dict(flatten(now))
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            name = key.removeprefix("settings.")
            raise ConfigError(
                f"resume: {name} is {new.get(key)!r} now, and was {old.get(key)!r} in {folder}"
            )


def _line(measurement: Measurement) -> str:
    return json.dumps(measurement.plain(), ensure_ascii=False) + "\n"
