"""Runs on disk: what each was started with, what has been measured, and shards put together."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self, final

from outrider.base.errors import ConfigError, refusing, require
from outrider.lab.measuring.measurement import Measurement
from outrider.lab.runs.files import LINES, read_facts, read_in, read_measurement, run_folders

SCHEMA = 2
"""The version of these files. Version 1 had no `schema`, `identity` and `starts`."""

OF_A_SHARD = ("schema", "starts", "ends", "apart", "questions", "questions_sha256")
"""The facts in which shards of one run differ, besides the setting `shard`."""


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


def load(folder: Path) -> Run:
    """Returns the run in a folder, finished or not.

    A last line that the end of the process cut short is ignored, and so are fields that a later
    version of Outrider has added. Of measurements of the same question and drafter the last counts.

    Raises `ConfigError` if there is no run, or it is damaged; the message names file and line.
    """
    return Run.of(folder, *read_run(folder))


def read_run(folder: Path) -> tuple[dict[str, Any], list[Measurement]]:
    """Returns the facts of a run and its measurements, those of drafters that failed too."""
    facts = read_facts(folder)
    asked = {(prompt, turn) for prompt, turn, _ in facts["questions"]}
    measurements: dict[tuple[object, ...], Measurement] = {}
    # Bytes, since the text may hold characters that `str.splitlines` takes for the end of a line.
    content = read_in(folder, LINES) or b""
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        where = f"{folder / LINES}, line {number}"
        with refusing(f"{where}: damaged, expected a measurement", ValueError):
            measurement = read_measurement(line, facts, asked)
        key = (*question_of(measurement), measurement.drafter, measurement.error is None)
        measurements.pop(key, None)  # the order is that of the last ones
        measurements[key] = measurement
    return facts, [*measurements.values()]


def question_of(measurement: Measurement) -> tuple[str, str, str]:
    return measurement.protocol, measurement.prompt, str(measurement.turn)


def gather(folders: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Returns the runs in the given folders and below them, each once, and what is damaged.

    Raises `ConfigError` if a folder does not exist, or holds no run that can be read.
    """
    runs: dict[Path, Path] = {}
    for folder in folders:
        require(folder.is_dir(), "report", str(folder), "a folder that exists")
        found = run_folders([folder])
        if not found:
            raise ConfigError(f"{str(folder)!r}: expected a run of `outrider compare` in it")
        runs |= {run_folder.resolve(): run_folder for run_folder in found}
    loaded, damaged = list[Run](), list[str]()
    for run_folder in runs.values():
        try:
            loaded.append(load(run_folder))
        except ConfigError as error:
            damaged.append(str(error))
    if not loaded:
        raise ConfigError("\n".join(damaged))
    return loaded, damaged


def pooled(runs: Sequence[Run]) -> list[Run]:
    """Returns the runs with all shards of one run put together, at the place of the first.

    Shards agree in all settings but `shard`, in the code and in the weights, and share no prompt.
    If some are missing, the setting names those that are there.
    """
    groups: dict[str, list[Run]] = {}
    for number, run in enumerate(runs):
        facts = {name: fact for name, fact in run.facts.items() if name not in OF_A_SHARD}
        settings = {**facts.get("settings", {})}
        is_shard = settings.pop("shard", None) is not None
        key = json.dumps([{**facts, "settings": settings}, None if is_shard else number])
        groups.setdefault(key, []).append(run)
    return [run for group in groups.values() for run in _together(group)]


def _together(runs: Sequence[Run]) -> list[Run]:
    first = runs[0]
    prompts = [prompt for run in runs for prompt in run.prompts]
    if len(runs) == 1 or len(set(prompts)) < len(prompts):
        return list(runs)
    shards = [str(run.facts["settings"]["shard"]) for run in runs]
    total = shards[0].partition("/")[2]
    is_whole = len(shards) == int(total) and all(each.endswith(f"/{total}") for each in shards)
    settings = {**first.facts["settings"], "shard": None if is_whole else ", ".join(shards)}
    facts = {**first.facts, "settings": settings}
    for name in ("questions", "starts", "ends", "apart"):
        facts[name] = [*chain.from_iterable(run.facts.get(name, ()) for run in runs)]
    failed = {name: why for run in runs for name, why in run.failed.items()}
    found = (m for run in runs for m in run.measurements if m.drafter not in failed)
    return [Run(first.folder, facts, tuple(found), failed)]
