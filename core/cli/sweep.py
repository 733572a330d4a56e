"""What is checked of all jobs of a sweep, before the first one starts."""

import os
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict

from outrider.base.errors import ConfigError, require
from outrider.base.terminal import remark
from outrider.cli.arguments import SWEEP
from outrider.plugins.config import build
from outrider.plugins.hookspecs import Command
from outrider.plugins.options import hydra_ready
from outrider.plugins.presets import CONFIG_DIR, SEARCH_PATH, own_folders
from outrider.plugins.reading import settings_of

BASIC = f"{BasicSweeper.__module__}.{BasicSweeper.__name__}"
"""The sweeper over given values. Its class is not compared: Hydra imports its plugins anew."""

RUNNERS = ("hydra/launcher", "hydra/sweeper")
"""What runs the jobs of a sweep, and which jobs there are."""

OF_SWEEPS = (*RUNNERS, "hydra.launcher", "hydra.sweeper", "hydra.sweep.")
"""How settings begin that only a sweep has a use for."""


def check_jobs(command: Command, arguments: Sequence[str]) -> None:
    """Asks the command about the settings of each job, if it is a sweep over given values.

    arguments: those of the command line; flags other than `--multirun`, a folder of presets and a
        config in it ask for no jobs.

    Raises `ConfigError` if a job can't run, chooses what runs the sweep, or has another's folder,
    be it of an earlier sweep.
    """
    flags = dict(word.partition("=")[::2] for word in arguments if word.startswith("--"))
    primary, is_multirun = flags.pop("--config-name", command.name), SWEEP in flags
    if flags.keys() - {CONFIG_DIR, SWEEP}:
        return
    words = (word for word in arguments if not word.startswith("--"))
    settings = [word for word in words if word.partition("=")[0] not in SEARCH_PATH]
    HydraConfig.instance().cfg = None
    with hydra_ready():
        loader: Any = GlobalHydra.instance().config_loader()
        for folder in own_folders(arguments):
            loader.get_search_path().prepend("command-line", folder, anchor="schema")
        loader.repository.initialize_sources(loader.get_search_path())
        config = loader.load_configuration(primary, settings, RunMode.MULTIRUN)
        hydra = config.hydra
        if not is_multirun and hydra.mode != RunMode.MULTIRUN:
            return
        if hydra.sweeper._target_ != BASIC:
            place, sweeper = hydra.sweep.dir, hydra.runtime.choices[RUNNERS[1]]
            line = f"an empty folder where hydra/sweeper={sweeper} chooses the jobs"
            require(not any(Path(place).glob("*")), "hydra.sweep.dir", place, line)
            return
        params = [f"{name}={value}" for name, value in (hydra.sweeper.params or {}).items()]
        overrides = OverridesParser.create(loader).parse_overrides([*params, *hydra.overrides.task])
        jobs = BasicSweeper.split_arguments(overrides, None)[0]
        require(bool(jobs), "--multirun", " ".join(settings), "at least one value of each setting")
        _check_each(command, [loader.load_sweep_config(config, list(job)) for job in jobs], hydra)


def _check_each(command: Command, jobs: Sequence[Any], sweep: Any) -> None:
    """Raises `ConfigError` as `check_jobs` does. jobs: their configs. sweep: Hydra's own config."""
    check = resolve_name(command.check) if isinstance(command.check, str) else command.check
    places: dict[str, int] = {}
    for number, job in enumerate(jobs):
        for runner in RUNNERS:
            own = job.hydra.runtime.choices[runner]
            line = f"{runner}={own} beside --multirun, where a job can't choose it"
            require(own == sweep.runtime.choices[runner], f"job {number}: {runner}", own, line)
        with open_dict(job):
            job.hydra.job.num = number
            job.hydra.job.id = str(number)
        HydraConfig.instance().set_config(job)
        subfolder = str(job.hydra.sweep.subdir)
        other = places.setdefault(os.path.normpath(subfolder), number)
        if other != number:
            line = f"jobs {other} and {number} would share a folder: expected one for each"
            raise ConfigError(f"hydra.sweep.subdir={subfolder}: {line}, as in ${{hydra.job.num}}")
        folder, own = Path(job.hydra.sweep.dir, subfolder), job.hydra.overrides.task
        kept = folder / str(job.hydra.output_subdir) / "overrides.yaml"
        if kept.is_file():
            earlier = {*kept.read_text(errors="replace").splitlines()}
            changed = earlier ^ {*OmegaConf.to_yaml(own).splitlines()}
            if not all(line.startswith("- resume=") for line in changed):
                line = "it is of a job with other settings: expected another folder for this sweep"
                raise ConfigError(f"hydra.sweep.dir={job.hydra.sweep.dir}: {folder}: {line}")
        if command.settings_class is not None:
            settings = settings_of(command, job)
            build(getattr(settings, "sampling", None))
            if check is not None:
                check(settings)
    HydraConfig.instance().cfg = None


def say_what_only_sweeps_use(hydra: Any) -> None:
    """Says which settings change nothing, since the run is none of a sweep. hydra: its config."""
    if hydra.mode == RunMode.MULTIRUN:
        return
    given = [it for it in hydra.overrides.hydra if it.lstrip("+").startswith(OF_SWEEPS)]
    chosen = [f"{it}={hydra.runtime.choices[it]}" for it in RUNNERS]
    given += [it for it in chosen if not it.endswith("=basic") and it not in given]
    given += ["hydra.sweeper.params"] if not given and hydra.sweeper.get("params") else []
    if given:
        remark(f"{', '.join(given)}: no such use in a single run, expected --multirun", "yellow")
