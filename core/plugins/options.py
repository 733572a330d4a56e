"""What Hydra finds of registered parts, whose signatures are their configs."""

import inspect
from contextlib import suppress
from copy import deepcopy
from dataclasses import field, make_dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.launcher import Launcher
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.bounds import hints_of
from outrider.base.errors import PluginError
from outrider.plugins.entry import Entry
from outrider.plugins.registry import builtin, installed
from outrider.plugins.roles import ROLES
from outrider.plugins.schema import offer_schema, typed_field

SCHEME = "outrider"

LAUNCHERS = "hydra_plugins.outrider"
"""Where Hydra looks for launchers, by name: in no package but its own, which parts are not in."""


class PluginConfigs(SearchPathPlugin):
    """Adds the presets of the installed plugins to Hydra's search path, and then the parts."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for path in installed().search_paths:
            try:
                check_presets(path)
            except PluginError as error:
                if str(error) not in installed().faults:
                    installed().leave_out(str(error))
                continue
            search_path.append(provider="outrider-plugin", path=path)
        search_path.append(provider=SCHEME, path=f"{SCHEME}://")


class Options(ConfigSource):
    """The registered parts as config files, each of which is made when it is read."""

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") in ROLES

    def is_config(self, config_path: str) -> bool:
        role, name = _split(config_path)
        return role in ROLES and name in installed().of(role)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return [] if results_filter == ObjectType.GROUP else sorted(installed().of(config_path))

    def load_config(self, config_path: str) -> ConfigResult:
        entry = installed().find(*_split(config_path))
        return ConfigResult(
            provider=entry.distribution,
            path=f"{SCHEME}://",
            config=deepcopy(option_schema(entry)),
            header={"package": None},
        )


def offer_options() -> None:
    """Makes all parts and schemas known to Hydra; calling it again changes nothing."""
    for plugin in (PluginConfigs, Options):
        Plugins.instance().register(plugin)
    for command in installed().commands.values():
        with suppress(Exception):  # a command of a broken plugin says so when it is run
            offer_schema(command)


@cache
def check_presets(path: str) -> None:
    """Looks at a folder of presets that a plugin names.

    Raises:
        PluginError: there is none, or a preset would take the place of a built-in part.
    """
    package = path.removeprefix("pkg://").replace("/", ".")
    try:
        folder = files(package) if path.startswith("pkg://") else Path(path.removeprefix("file://"))
    except ModuleNotFoundError:
        folder = None
    if folder is None or not folder.is_dir():
        raise PluginError(f"search path {path!r} of a plugin: expected a package or a folder")
    for role in ROLES:
        presets = folder.joinpath(role)
        for entry in builtin().of(role).values():
            if presets.joinpath(f"{entry.name}.yaml").is_file():
                raise PluginError(
                    f"search path {path!r} of a plugin: {role}/{entry.name}.yaml would replace the"
                    f" built-in {role} {entry.name!r}: expected another name"
                )


@cache
def option_schema(entry: Entry) -> DictConfig:
    """Returns the config of a part: its factory's parameters, with their types and defaults.

    Raises:
        PluginError: a default is of a type that no config can hold.
    """
    factory = entry.factory
    hints = hints_of(factory)
    fields: list[Any] = [("_target_", str, field(default=_target(entry)))]
    for name, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = "???" if parameter.default is parameter.empty else parameter.default
        fields.append(typed_field(name, hints.get(name, Any), default))
    try:
        schema: DictConfig = OmegaConf.structured(make_dataclass(factory.__name__, fields))
    except OmegaConfBaseException as error:
        raise PluginError(
            f"{entry.claim} has a default that no config can hold: {' '.join(str(error).split())}"
        ) from error
    return schema


def _target(entry: Entry) -> str:
    """Returns the name that a config calls a part by."""
    factory: Any = entry.factory
    if not (inspect.isclass(factory) and issubclass(factory, Launcher)):
        return f"{factory.__module__}.{factory.__qualname__}"
    name = f"{LAUNCHERS}.{factory.__name__}"
    Plugins.instance().class_name_to_class[name] = factory
    return name


def _split(path: str) -> tuple[str, str]:
    """Returns the group and the name of an option, "hydra/launcher" and "ray" for example."""
    role, _, name = path.strip("/").removesuffix(".yaml").rpartition("/")
    return role, name
