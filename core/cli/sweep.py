"""What is checked of all jobs of a sweep, before the first one starts."""

from collections.abc import Sequence
from pkgutil import resolve_name

from hydra import compose, initialize_config_module
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode

from outrider.base.errors import require
from outrider.plugins.command import Command
from outrider.plugins.config import build
from outrider.plugins.options import CONF_MODULE
from outrider.plugins.reading import read_settings

BASIC = f"{BasicSweeper.__module__}.{BasicSweeper.__name__}"
"""The sweeper over given values. Its class is not compared: Hydra imports its plugins anew."""

SWEEP_FLAGS = {"-m", "--multirun"}


def check_jobs(command: Command, arguments: Sequence[str]) -> None:
    """Asks the command about the settings of each job, if it is a sweep over given values.

    arguments: those of the command line; flags other than `--multirun` ask for no jobs.

    Raises `ConfigError` if a job can't run.
    """
    flags = {argument for argument in arguments if argument.startswith("-")}
    if not flags <= SWEEP_FLAGS:
        return
    settings = [argument for argument in arguments if argument not in flags]
    check = resolve_name(command.check) if isinstance(command.check, str) else command.check
    with initialize_config_module(CONF_MODULE, version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        config = loader.load_configuration(command.name, settings, RunMode.MULTIRUN)
        hydra = config.hydra
        is_sweep = flags or hydra.mode == RunMode.MULTIRUN
        if not is_sweep or hydra.sweeper._target_ != BASIC:
            return
        params = [f"{name}={value}" for name, value in (hydra.sweeper.params or {}).items()]
        overrides = OverridesParser.create(loader).parse_overrides([*params, *hydra.overrides.task])
        jobs = BasicSweeper.split_arguments(overrides, None)[0]
        require(bool(jobs), "--multirun", " ".join(settings), "at least one value of each setting")
        for job in jobs if command.settings_class is not None else ():
            settings_of_job = read_settings(command.settings_class, compose(command.name, job))
            build(getattr(settings_of_job, "sampling", None))
            if check is not None:
                check(settings_of_job)
