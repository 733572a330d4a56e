"""Store: a run's folder, where each measurement is saved as soon as it is made."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Self, final

from filelock import Timeout

from outrider.base.errors import ConfigError, OutriderError, require
from outrider.base.folders import append_line, hold, write_whole
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.runs.files import FACTS, LINES, LOCK, stamp
from outrider.lab.runs.labels import differences
from outrider.lab.runs.run import SCHEMA, Run, load, question_of, read_run

CHANGING = ("schema", "starts", "questions_sha256", "reference", "ends", "apart", "sketch_error")
"""The facts that may differ when a run is resumed, or that are added later."""


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
            self._open(as_json({"schema": SCHEMA, **facts}), resume)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, facts: dict[str, Any], resume: bool) -> None:
        self.facts: Mapping[str, Any] = facts
        self.measurements: list[Measurement] = []
        self.changed: list[str] = []
        self._has_measured = False
        self._is_new = not (self.path / FACTS).is_file()
        if not self._is_new:
            saved, found = read_run(self.path)
            require(resume, "resume", resume, f"true, since {self.path} holds a run already")
            self._continue(saved, found)
        self._put({})

    def _continue(self, saved: Mapping[str, Any], found: Sequence[Measurement]) -> None:
        is_finished = Run.of(self.path, saved, found).finished
        if not is_finished:  # what has other code or other weights now
            old, new = (facts.get("identity") or {} for facts in (saved, self.facts))
            self.changed = [it for it in saved["drafters"] if old.get(it) != new.get(it)]
        before, now = (lasting_facts(facts, self.changed) for facts in (saved, self.facts))
        check_same(before, now, self.path)
        failed = (m.drafter for m in found if m.error is not None)
        apart = {*self.changed, *failed}
        kept = [m for m in found if m.error is None and m.drafter not in self.changed]
        self.measurements = _complete_questions(kept, {**saved, **self.facts}, apart)
        done = Counter(measurement.drafter for measurement in self.measurements)
        later = {name for name in apart if done[name] < max(done.values(), default=0)}
        # A process that has nothing to measure says nothing of the times.
        own = () if is_finished else self.facts.get("starts", ())
        starts = [*saved.get("starts", ()), *own]
        self.facts = {**saved, **self.facts, "starts": starts}
        if later:
            self.facts["apart"] = sorted({*saved.get("apart", ()), *later})
        if self._lines.is_file():  # a line that a process left cut short goes too
            lines = (json.dumps(measurement.plain()) + "\n" for measurement in kept)
            write_whole(self._lines, "".join(lines))

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
            check_same({name: self.facts[name]}, fact, self.path)
        self._put(fact)

    def add(self, measurement: Measurement) -> None:
        append_line(self._lines, json.dumps(measurement.plain()))
        self._has_measured = True
        self.measurements.append(measurement)

    def end(self, load: float | None) -> None:
        """Saves the load of the machine when a process has measured all that it will, if it did."""
        if self._has_measured:
            self._put({"ends": [*self.facts.get("ends", ()), {"load": load}]})

    @property
    def run(self) -> Run:
        return Run.of(self.path, self.facts, self.measurements)

    def _put(self, facts: Mapping[str, Any]) -> None:
        """Adds facts, and saves all of them."""
        self.facts = {**self.facts, **as_json(facts)}
        write_whole(self.path / FACTS, json.dumps(self.facts, indent=1))


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


def _complete_questions(
    found: Sequence[Measurement], facts: Mapping[str, Any], apart: AbstractSet[str]
) -> list[Measurement]:
    """Returns the measurements of the questions that all drafters have finished.

    The other questions are measured again with all drafters, and questions that are decoded
    together again together: times are only comparable within these.

    apart: the drafters that are not waited for, since they failed or have changed.
    """
    together = int(facts["settings"].get("together", 1))
    groups = {
        (protocol, prompt, str(turn)): (protocol, number // size)
        for protocol, size in (("overlap", 1), ("decode", together))
        for number, (prompt, turn, _) in enumerate(facts["questions"])
    }
    counts = Counter((each.drafter, groups[question_of(each)]) for each in found)
    sizes, steady = Counter(groups.values()), facts["drafters"].keys() - apart

    def is_complete(measurement: Measurement) -> bool:
        group = groups[question_of(measurement)]
        return all(counts[name, group] == sizes[group] for name in {measurement.drafter, *steady})

    return [*filter(is_complete, found)]


def check_same(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raises `ConfigError` if a run's facts have changed; the message names the first change."""
    for key, (old, new) in differences([saved, now]).items():
        name = key.removeprefix("settings.").removeprefix("identity.")
        raise ConfigError(f"resume: {name} is {new!r} now, and was {old!r} in {folder}")


def lasting_facts(facts: Mapping[str, Any], changed: Sequence[str]) -> dict[str, Any]:
    """Returns the facts that have to be the same; the drafters `changed` may be others."""
    kept = {key: value for key, value in facts.items() if key not in CHANGING}
    identity = facts.get("identity") or {}
    return kept | {"identity": {k: own for k, own in identity.items() if k not in changed}}


def as_json(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns facts as JSON gives them back: tuples become lists."""
    result: dict[str, Any] = json.loads(json.dumps(facts))
    return result
