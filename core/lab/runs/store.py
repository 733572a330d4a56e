"""Store: a run's folder, where each measurement is saved as soon as it is made."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, final

from filelock import Timeout

from outrider.base.errors import ConfigError, OutriderError, require
from outrider.base.folders import append_line, write_whole
from outrider.base.locks import hold
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.runs.files import FACTS, LINES, LOCK, read_in, stamp
from outrider.lab.runs.schema import read_facts, read_measurement

SCHEMA = 2
"""The version of these files. Version 1 had no `schema`, `identity` and `starts`."""

CHANGING = ("schema", "starts", "questions_sha256", "reference", "ends", "apart")
"""The facts that may differ when a run is resumed, or that are added later."""


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is on disk, finished or not.

    facts: what it was started with: `settings`, `drafters` (the configs of each drafter, its rule
        and its policy, and its gamma and budget if it has its own), `protocols`, `questions`,
        `lossless` for each drafter, `remember` (the drafters that remember texts, if any do),
        `target_itself` (likewise, those that are the target in weights that lose nothing),
        `reference` (the drafter that is compared with the others, if one is), `identity` (see
        `outrider.lab.runs.identity`), `starts` (the provenance of each process that measured),
        `ends` (the load when it ended) and `apart` (the drafters that a later process measured on
        questions that others had finished).
    measurements: those of the drafters that have not failed.
    failed: by drafter, where it failed and how.
    """

    folder: Path
    facts: Mapping[str, Any]
    measurements: tuple[Measurement, ...]
    failed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, facts: Mapping[str, Any], found: Sequence[Measurement]) -> Self:
        """Returns the run with these measurements, some of which may be errors."""
        failed = {m.drafter: f"prompt {m.prompt}: {m.error}" for m in found if m.error is not None}
        return cls(folder, facts, tuple(m for m in found if m.drafter not in failed), failed)

    @property
    def drafters(self) -> list[str]:
        """Returns the names of the drafters that have not failed, in the order of the settings."""
        return [name for name in self.facts["drafters"] if name not in self.failed]

    def gamma(self, drafter: str) -> int:
        """Returns the gamma of a drafter: its own, or that of all."""
        own = self.facts["drafters"][drafter].get("gamma")
        return int(self.facts["settings"]["gamma"] if own is None else own)

    @property
    def prompts(self) -> list[str]:
        """Returns the ids of all prompts, measured or not."""
        return list(dict.fromkeys(prompt for prompt, *_ in self.facts["questions"]))

    @property
    def finished(self) -> bool:
        """Returns whether every question was measured with every drafter by every protocol."""
        each = len(self.facts["questions"]) * len(self.facts["protocols"])
        return len(self.measurements) == each * len(self.facts["drafters"])


@final
class RunFolder:
    """A run in progress: the measurements made so far, and the folder that takes the others.

    The folder is locked until the end of the `with` block. A question that was interrupted is
    measured again, and its later measurements count. Nothing is deleted from the folder but errors,
    and the measurements of drafters whose code or weights have changed: `changed` has their names.

    Raises `ConfigError` if the folder holds a run with other facts, or holds one and `resume` is
    false, or another process writes to it.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self._lines = path / LINES
        try:
            self._lock = hold(path / LOCK)
        except Timeout as error:
            raise ConfigError(
                f"{str(path)!r}: another process writes to this run: expected one at a time"
            ) from error
        try:
            self._open(_as_json({"schema": SCHEMA, **facts}), resume)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, facts: dict[str, Any], resume: bool) -> None:
        self.measurements: list[Measurement] = []
        self.changed: list[str] = []
        self._is_new = not (self.path / FACTS).is_file()
        if not self._is_new:
            saved, found = _read(self.path)
            require(resume, "resume", resume, f"true, since {self.path} holds a run already")
            if not Run.of(self.path, saved, found).finished:
                old, new = (each.get("identity") or {} for each in (saved, facts))
                self.changed = [
                    name for name in saved["drafters"] if old.get(name) != new.get(name)
                ]
            _check_same(_lasting(saved, self.changed), _lasting(facts, self.changed), self.path)
            facts = {**saved, **facts}
            facts["starts"] = [*saved.get("starts", ()), *facts.get("starts", ())]
            failed = (m.drafter for m in found if m.error is not None)
            apart = {*self.changed, *failed}
            found = [m for m in found if m.error is None and m.drafter not in self.changed]
            self.measurements = _complete_questions(found, facts, apart)
            done = Counter(measurement.drafter for measurement in self.measurements)
            later = {name for name in apart if done[name] < max(done.values(), default=0)}
            if later:
                facts["apart"] = sorted({*saved.get("apart", ()), *later})
            if self._lines.is_file():  # a line that a process left cut short goes too
                lines = (json.dumps(measurement.plain()) + "\n" for measurement in found)
                write_whole(self._lines, "".join(lines))
        self.facts: dict[str, Any] = facts
        self._save_facts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._is_new and isinstance(error, OutriderError) and not self._lines.exists():
            (self.path / FACTS).unlink()  # refused before it measured: there is no run to resume
        self._lock.release()

    def confirm(self, name: str, value: object) -> None:
        """Adds a fact that becomes known during the run, such as a hash of the target's texts.

        Raises `ConfigError` if the run has the fact already, with another value.
        """
        fact = {name: value}
        if name in self.facts:
            _check_same({name: self.facts[name]}, fact, self.path)
        self.facts = {**self.facts, **_as_json(fact)}
        self._save_facts()

    def add(self, measurement: Measurement) -> None:
        """Saves a measurement."""
        self.measurements.append(measurement)
        append_line(self._lines, json.dumps(measurement.plain()))

    def end(self, load: float | None) -> None:
        """Saves the load of the machine when a process has measured all that it will."""
        self.facts = {**self.facts, "ends": [*self.facts.get("ends", ()), {"load": load}]}
        self._save_facts()

    @property
    def run(self) -> Run:
        """Returns the run in its present state."""
        return Run.of(self.path, self.facts, self.measurements)

    def _save_facts(self) -> None:
        write_whole(self.path / FACTS, json.dumps(self.facts, indent=1))


def load(folder: Path) -> Run:
    """Returns the run in a folder, finished or not.

    A last line that the end of the process cut short is ignored, and so are fields that a later
    version of Outrider has added. Of measurements of the same question and drafter the last counts.

    Raises `ConfigError` if there is no run, or it is damaged; the message names file and line.
    """
    return Run.of(folder, *_read(folder))


def _read(folder: Path) -> tuple[dict[str, Any], list[Measurement]]:
    """Returns the facts of a run and its measurements, those of drafters that failed too."""
    facts = read_facts(folder)
    asked = {(prompt, turn) for prompt, turn, _ in facts["questions"]}
    measurements: dict[tuple[object, ...], Measurement] = {}
    # Bytes, since the text may hold characters that `str.splitlines` takes for the end of a line.
    content = read_in(folder, LINES) or b""
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            measurement = read_measurement(line, facts, asked)
        except ValueError as error:
            raise ConfigError(
                f"{folder / LINES}, line {number}: damaged, expected a measurement ({error})"
            ) from error
        key = (*_question(measurement), measurement.drafter, measurement.error is None)
        measurements.pop(key, None)  # the order is that of the last ones
        measurements[key] = measurement
    return facts, [*measurements.values()]


def unfinished(folder: Path) -> Path | None:
    """Returns the newest unfinished run directly below `folder`, or None.

    Runs that a process is writing to are left out.
    """
    runs = [path.parent for path in sorted(folder.glob(f"*/{FACTS}"))]
    for run in sorted(runs, key=lambda run: (stamp(run, FACTS) or (0, 0.0))[1], reverse=True):
        try:
            if not load(run).finished:
                hold(run / LOCK).release()
                return run
        except (OutriderError, OSError):  # damaged, held, or in a folder that can't be written to
            continue
    return None


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values in nested mappings, each with its dotted key."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def changes(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yields the facts that differ: the dotted key, the old value and the new one."""
    old, new = dict(flatten(saved)), dict(flatten(now))
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield key, old.get(key), new.get(key)


def _complete_questions(
    found: Sequence[Measurement], facts: Mapping[str, Any], apart: AbstractSet[str]
) -> list[Measurement]:
    """Returns the measurements of the questions that all drafters have finished.

    The other questions are measured again with all drafters, and questions that are decoded
    together again together: times are only comparable within these.

    apart: the drafters that are not waited for, since they failed or have changed.
    """
    together = int(facts["settings"].get("together", 1))
    questions = [(prompt, str(turn)) for prompt, turn, _ in facts["questions"]]
    numbers = {question: number for number, question in enumerate(questions)}

    def group(measurement: Measurement) -> tuple[str, int]:
        protocol, *question = _question(measurement)
        size = together if protocol == "decode" else 1
        return protocol, numbers[question[0], question[1]] // size

    counts = Counter((measurement.drafter, group(measurement)) for measurement in found)
    sizes = {("overlap", number): 1 for number in numbers.values()}
    sizes |= Counter(("decode", number // together) for number in numbers.values())
    steady = facts["drafters"].keys() - apart

    def is_complete(measurement: Measurement) -> bool:
        own = group(measurement)
        return all(counts[name, own] == sizes[own] for name in {measurement.drafter, *steady})

    return [*filter(is_complete, found)]


def _question(measurement: Measurement) -> tuple[str, str, str]:
    return measurement.protocol, measurement.prompt, str(measurement.turn)


def _check_same(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raises `ConfigError` if a run's facts have changed; the message names the first change."""
    for key, old, new in changes(saved, now):
        name = key.removeprefix("settings.").removeprefix("identity.")
        raise ConfigError(f"resume: {name} is {new!r} now, and was {old!r} in {folder}")


def _lasting(facts: Mapping[str, Any], changed: Sequence[str]) -> dict[str, Any]:
    """Returns the facts that have to be the same; the drafters `changed` may be others."""
    lasting = {key: value for key, value in facts.items() if key not in CHANGING}
    identity = facts.get("identity") or {}
    return lasting | {"identity": {k: own for k, own in identity.items() if k not in changed}}


def _as_json(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns facts as JSON gives them back: tuples become lists."""
    result: dict[str, Any] = json.loads(json.dumps(facts))
    return result
