"""Store: a run's folder, to which each measurement goes as soon as it is there."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from outrider.errors import ConfigError, OutriderError, require
from outrider.lab.measurement import Measurement

FACTS, LINES = "run.json", "measurements.jsonl"


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A run as it stands on disk, finished or not.

    facts: what it was started with: `settings`, `drafters` (of each its config, with its rule and
        policy), `protocols`, `questions`, and for each drafter whether it is `lossless`.
    """

    folder: Path
    facts: Mapping[str, Any]
    measurements: tuple[Measurement, ...]

    @property
    def drafters(self) -> list[str]:
        """Returns the drafters' names, in the order asked for."""
        return list(self.facts["drafters"])

    @property
    def finished(self) -> bool:
        """Returns whether every question was measured with every drafter by every protocol."""
        wanted = len(self.facts["questions"]) * len(self.drafters) * len(self.facts["protocols"])
        return len(self.measurements) == wanted


@final
class RunFolder:
    """A run under way: what is there already, and where the rest goes.

    Raises `ConfigError` where the folder holds a run with other facts, or one at all although
    it is not to be resumed.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any], *, resume: bool) -> None:
        self.folder = folder
        # As it will read: a tuple comes back as a list.
        self.facts: dict[str, Any] = json.loads(json.dumps(facts))
        self._lines = folder / LINES
        before: tuple[Measurement, ...] = ()
        if (folder / FACTS).is_file():
            run = load(folder)
            require(resume, "resume", resume, f"true, since {folder} holds a run already")
            _same(run.facts, self.facts, folder)
            before = _whole_questions(run)
        self.measurements = list(before)
        (folder / FACTS).write_text(json.dumps(self.facts, indent=1))
        scratch = self._lines.with_suffix(".new")
        scratch.write_text("".join(_line(each) for each in before), encoding="utf-8")
        scratch.replace(self._lines)

    def add(self, measurement: Measurement) -> None:
        """Puts a measurement on disk."""
        self.measurements.append(measurement)
        with self._lines.open("a", encoding="utf-8") as file:
            file.write(_line(measurement))

    @property
    def run(self) -> Run:
        """Returns the run as it stands."""
        return Run(self.folder, self.facts, tuple(self.measurements))


def load(folder: Path) -> Run:
    """Returns the run in a folder, half-finished ones included.

    A last line that was cut off by the end of its process does not count.

    Raises:
        ConfigError: there is no run, or it is damaged; the message names file and line.
    """
    place = folder / FACTS
    if not place.is_file():
        raise ConfigError(f"{str(folder)!r}: expected the folder of a run, with {FACTS} in it")
    try:
        facts = json.loads(place.read_text(encoding="utf-8"))
        assert isinstance(facts, dict) and facts.keys() >= {"drafters", "questions", "protocols"}
    except (json.JSONDecodeError, AssertionError) as error:
        raise ConfigError(f"{place}: damaged, it is no longer the facts of a run") from error
    measurements = []
    lines = (folder / LINES).read_text(encoding="utf-8") if (folder / LINES).is_file() else ""
    for number, line in enumerate(lines.splitlines(keepends=True), start=1):
        if not line.endswith("\n"):
            break
        try:
            measurements.append(Measurement.read(json.loads(line)))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{folder / LINES}, line {number}: damaged, no measurement"
            ) from error
    return Run(folder, facts, tuple(measurements))


def gather(folders: Sequence[Path]) -> list[Run]:
    """Returns the runs in the given folders, and in those below them.

    Raises:
        ConfigError: one of the folders holds no run.
    """
    runs = []
    for folder in folders:
        require(folder.is_dir(), "report", str(folder), "a folder that exists")
        places = sorted({place.parent for place in folder.rglob(FACTS)})
        if not places:
            raise ConfigError(f"{str(folder)!r}: expected a run of `outrider compare` in it")
        runs += [load(place) for place in places]
    return runs


def unfinished(folder: Path) -> Path | None:
    """Returns the newest of the runs in `folder` that broke off, where there is one."""
    runs = [place.parent for place in sorted(folder.glob(f"*/{FACTS}"))]
    for place in sorted(runs, key=lambda run: (run / FACTS).stat().st_mtime, reverse=True):
        try:
            if not load(place).finished:
                return place
        except OutriderError:
            continue
    return None


def _whole_questions(run: Run) -> tuple[Measurement, ...]:
    """Returns the measurements of the questions that all drafters have done.

    The others are measured again as a whole, since clocks are compared within a question.
    """
    done: dict[tuple[str, str, int], int] = {}
    for each in run.measurements:
        key = (each.protocol, each.prompt, each.turn)
        done[key] = done.get(key, 0) + 1
    return tuple(
        each
        for each in run.measurements
        if done[each.protocol, each.prompt, each.turn] == len(run.drafters)
    )


def _same(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    old, new = dict(_flat(before)), dict(_flat(now))
    for key in [*old, *(key for key in new if key not in old)]:
        if old.get(key) != new.get(key):
            name = key.removeprefix("settings.")
            raise ConfigError(
                f"resume: {name} is {new.get(key)!r} now, and was {old.get(key)!r} in {folder}"
            )


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(each, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def _line(measurement: Measurement) -> str:
    return json.dumps(measurement.plain(), ensure_ascii=False) + "\n"
