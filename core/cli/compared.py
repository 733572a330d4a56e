"""A comparison from Python: what `outrider compare` measures, as data frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, final

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, read_write

from outrider.base.errors import ConfigError, nearest, shown
from outrider.cli.commands.compare import measured
from outrider.cli.settings import Compare
from outrider.contract.drafter import Drafter
from outrider.contract.sampling import Sampling
from outrider.contract.target import Target
from outrider.data.prompts import Prompt
from outrider.lab.runs.conclusion import conclusion_of
from outrider.lab.runs.frames import Frames, load
from outrider.lab.runs.run import load as load_run
from outrider.lab.runs.summary import Summary
from outrider.lab.tables.formats import as_html
from outrider.lab.tables.rates import SHORT, rates_table
from outrider.plugins.config import run_single
from outrider.plugins.parts import make
from outrider.plugins.reading import part_config, read_settings
from outrider.plugins.roles import Named

PARTS = ("target", "data", "verifier", "policy")
"""The settings that are a part, beside the sampling and those that list several."""

UNLOGGED = ("hydra/job_logging=none", "hydra/hydra_logging=none", "hydra.output_subdir=null")
"""What keeps Hydra from changing the logging of a program."""


@final
@dataclass(frozen=True)
class Comparison:
    """A run of `outrider.compare`, which a notebook shows as its table and its finding.

    folder: where it is. `outrider report`, `outrider view` and `resume=True` go on from there.
    """

    folder: Path

    @cached_property
    def summary(self) -> Summary:
        """Returns the figures with their intervals, and the drafters pair by pair."""
        return Summary(load_run(self.folder))

    @cached_property
    def frames(self) -> Frames:
        """Returns the run as data frames of pandas: `rates`, `questions` and `rounds`."""
        return load(self.folder)

    @property
    def finding(self) -> str:
        """Returns what the run has shown, in words."""
        return " ".join(conclusion_of(self.summary))

    def __repr__(self) -> str:
        return f"Comparison({str(self.folder)!r}): {self.finding}"

    def _repr_html_(self) -> str:
        rows, title = {"": self.summary.rows}, f"{len(self.summary.prompts)} prompts"
        table = rates_table(rows, title, over_plain=self.summary.over_plain)
        columns, lines = table.columns[:SHORT], tuple(row[:SHORT] for row in table.rows)
        notes = tuple(note for note in table.notes if note not in self.finding)
        table = replace(table, columns=columns, rows=lines, notes=notes)
        return f"{as_html(table)}\n<p>{escape(self.finding)}</p>"


def compare(
    target: Target | Named,
    drafters: Sequence[Drafter | Named],
    data: Named | Sequence[str | Prompt] = "demo",
    *,
    folder: str | Path | None = None,
    seed: int = 0,
    **settings: Any,
) -> Comparison:
    """Measures drafters side by side on the same prompts, as `outrider compare` does.

    >>> outrider.compare("smollm2", [MyDrafter(), "prompt_lookup", "none"], data=["Name a river."])

    target, drafters: instances, names, or mappings with settings, as `outrider.decode` takes them.
    data: prompts, or where they come from: {"data": "jsonl", "path": "questions.jsonl"}.
    folder: where the run is kept. Defaults to a new one in `outputs/compare`.
    seed: seeds every random decision.
    settings: those of `outrider compare`: gamma, max_new_tokens, sampling, verifiers, ...

    Raises:
        OutriderError: a setting is invalid, or a drafter failed; the run is kept as far as it came.
    """
    given = {"target": target, "drafters": drafters, "data": data, **settings}
    known = [it.name for it in fields(Compare)]
    for name in given:
        if name not in known:
            raise ConfigError(f"{name}: {nearest(name, (*known, 'folder', 'seed'))}")
    said = [f"{name}={shown(value)}" for name, value in given.items()]
    given |= {name: _part(name, given[name]) for name in PARTS if given.get(name) is not None}
    sampling: Sampling = make("sampling", settings.get("sampling", "greedy"))
    given["sampling"] = sampling if sampling.seed is not None else replace(sampling, seed=seed)
    runs: list[Path] = []
    errors: list[BaseException] = []

    def run(config: DictConfig) -> None:
        hydra: Any = HydraConfig.get()
        with read_write(hydra):
            hydra.overrides.task = said
        runs.append(Path(hydra.runtime.output_dir).absolute())
        try:
            made = measured(read_settings(Compare, config, given=given))
            made.check()
            made.hold_to_baseline()
        except BaseException as error:  # noqa: BLE001  Hydra would print all of its own frames
            errors.append(error)

    place = [] if folder is None else [f"hydra.run.dir={str(Path(folder).expanduser())!r}"]
    run_single(run, "compare", [*UNLOGGED, *place])
    for error in errors:
        raise error
    return Comparison(runs[0])


def _part(name: str, value: Any) -> Any:
    """Returns the config of a part, or the part itself."""
    if name == "data" and isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(
            Prompt(str(number), "prompts", (each,)) if isinstance(each, str) else each
            for number, each in enumerate(value, start=1)
        )
    if isinstance(value, str | Mapping):
        return part_config(name, value)
    return make(name, value)
