"""Configs: each registered part becomes a Hydra option, composed with the YAML files."""

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import field, make_dataclass
from functools import cache, partial
from typing import Any, get_type_hints

from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException, InstantiationException, MissingConfigException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    MissingMandatoryValue,
    OmegaConfBaseException,
    UnsupportedValueType,
    ValidationError,
)

from outrider.errors import ConfigError, OutriderError, PluginError, nearest
from outrider.plugins.ray_launcher import RayLauncher
from outrider.plugins.registry import ROLES, Entry, Registry, installed, plural

MODULE = "outrider.conf"
GROUPS = (*ROLES, "data", "recipe", "sampling")


class PluginConfigs(SearchPathPlugin):
    """Puts the presets of the installed plugins on Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for path in installed().search_paths:
            search_path.append(provider="outrider-plugin", path=path)


def install(registry: Registry) -> None:
    """Makes every registered part a Hydra option; calling it again changes nothing."""
    store = ConfigStore.instance()
    for entry in registry.entries:
        store.store(
            group=entry.role,
            name=entry.name,
            node=_known_schema(entry),
            provider=entry.distribution,
        )
    Plugins.instance().register(PluginConfigs)
    # Hydra takes launchers of its own namespace alone, where an editable install can put none.
    Plugins.instance().class_name_to_class["hydra_plugins.outrider.RayLauncher"] = RayLauncher


def schema(entry: Entry) -> DictConfig:
    """Returns the config of a part: its factory's parameters, with their types and defaults.

    Raises:
        PluginError: a default can't stand in a config.
    """
    factory = entry.factory
    signed: Any = factory.__init__ if inspect.isclass(factory) else factory
    hints = get_type_hints(signed)
    fields: list[Any] = [
        ("_target_", str, field(default=f"{factory.__module__}.{factory.__qualname__}"))
    ]
    for name, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = "???" if parameter.default is parameter.empty else parameter.default
        typed = (name, hints.get(name, Any), field(default_factory=partial(copy, default)))
        try:
            OmegaConf.structured(make_dataclass("Probe", [typed]))
        except (ValidationError, UnsupportedValueType):
            typed = (name, Any, typed[2])  # a type that configs don't know: checked when made
        fields.append(typed)
    try:
        node: DictConfig = OmegaConf.structured(make_dataclass(factory.__name__, fields))
    except OmegaConfBaseException as error:
        raise PluginError(
            f"{entry.role} {entry.name!r} of {entry.distribution} has a default that no config"
            f" can hold: {_line(error)}"
        ) from error
    return node


_known_schema = cache(schema)
"""Every command installs the parts anew; their signatures stay what they are."""


def compose(command: str, overrides: Sequence[str] = ()) -> DictConfig:
    """Returns the config of a command, as the command line composes it."""
    install(installed())
    with initialize_config_module(MODULE, version_base="1.3"):
        return hydra_compose(command, overrides=list(overrides))


def build(node: Any) -> Any:
    """Returns what a config describes; an error of the part itself comes through as it is."""
    try:
        return instantiate(node)
    except InstantiationException as error:
        if isinstance(error.__cause__, OutriderError):
            raise error.__cause__ from error
        raise ConfigError(_line(error)) from error


def named(role: str, wanted: Any) -> dict[str, DictConfig]:
    """Returns the config of each part in a list of names, or of mappings with arguments.

    >>> named("drafter", ["none", {"drafter": "bigram", "order": 3, "name": "trigram"}])

    Needs Hydra to be initialised, as it is inside a command.

    Raises:
        ConfigError: an entry is no name and no such mapping, or two have one name.
    """
    found: dict[str, DictConfig] = {}
    if not isinstance(wanted, Sequence) or isinstance(wanted, str):
        raise ConfigError(
            f"{plural(role)}={wanted!r}: expected a list, such as [{_examples(role)}]"
        )
    for item in wanted:
        arguments = dict(item) if isinstance(item, Mapping) else {role: item}
        option = arguments.pop(role, None)
        if not isinstance(option, str):
            raise ConfigError(
                f"{plural(role)}: {item!r}: expected a name, or a mapping with {role!r}"
            )
        name = str(arguments.pop("name", option))
        if name in found:
            raise ConfigError(
                f"{plural(role)}: two are named {name!r}: give one another with"
                f" {{{role}: {option}, name: ...}}"
            )
        node = hydra_compose(overrides=[f"+{role}={option}"])[role]
        for key, value in arguments.items():
            if key not in _parameters(node):  # `in node` overlooks those without a default
                raise ConfigError(
                    f"{plural(role)}: {name}.{key}: {nearest(key, _parameters(node))}"
                )
            try:
                node[key] = value
            except OmegaConfBaseException as error:
                raise ConfigError(
                    f"{plural(role)}: {name}.{key}={value!r}: {_line(error)}"
                ) from error
        found[name] = node
    return found


def _examples(role: str) -> str:
    return ",".join(list(installed().of(role))[:2])


def explain(error: Exception, command: str, overrides: Sequence[str]) -> str:
    """Returns the one line that a person needs of an error of Hydra or OmegaConf."""
    message = _line(error)
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, name = (error.missing_cfg_file or "").rpartition("/")
        return f"{group}={name!r}: {nearest(name, error.options)}"
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key}: expected a value: {error.full_key}=..."
    if isinstance(error, ConfigCompositionException) and "Could not override '" in message:
        key = message.split("Could not override '")[1].split("'")[0]
        chosen = [item for item in overrides if item.partition("=")[0] in GROUPS]
        return f"{key}: no such setting; {nearest(key, _keys(compose(command, chosen)))}"
    if isinstance(error, ConfigCompositionException) and error.__cause__ is not None:
        reason = str(error.__cause__).splitlines()[0]
        return f"{message.removeprefix('Error merging override ')}: {reason}"
    return message


def plain(node: Any) -> Any:
    """Returns a config as plain dicts and lists, for a report; missing values stay '???'."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def _parameters(node: DictConfig) -> list[str]:
    return [str(key) for key in node if key != "_target_"]


def _keys(node: DictConfig, prefix: str = "") -> list[str]:
    keys: list[str] = []
    for key in map(str, node):
        if OmegaConf.is_missing(node, key) or not isinstance(node[key], DictConfig):
            keys += [prefix + key] if key != "_target_" else []
        else:
            keys += _keys(node[key], f"{prefix}{key}.")
    return keys


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
