"""What Hydra finds of registered parts: their signatures are their configs."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.errors import PluginError, message_of
from outrider.plugins.entry import Entry
from outrider.plugins.parts import TARGET
from outrider.plugins.presets import plugin_folders
from outrider.plugins.registry import installed
from outrider.plugins.roles import ROLES
from outrider.plugins.source import REQUIRED, parameters_of

CONF_MODULE = "outrider.conf"
"""Where the commands' configs are."""

SCHEME = "outrider"


class PluginConfigs(SearchPathPlugin):
    """Adds the presets of the installed plugins to Hydra's search path, and then the parts."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for path in plugin_folders():
            search_path.append(provider="outrider-plugin", path=path)
        search_path.append(provider=SCHEME, path=f"{SCHEME}://")


class Options(ConfigSource):
    """The registered parts, each of whose configs is made when it is read."""

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") in ROLES

    def is_config(self, config_path: str) -> bool:
        return _entry_of(config_path) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return [] if results_filter == ObjectType.GROUP else sorted(installed().of(config_path))

    def load_config(self, config_path: str) -> ConfigResult:
        entry = _entry_of(config_path)
        assert entry is not None, "Hydra loads what `is_config` has found"
        if "<" in entry.path:  # as in module.function.<locals>.Class
            expected = "expected one at the top of a module, where a config finds it"
            raise PluginError(f"{entry.claim} is {entry.path}: {expected}")
        return ConfigResult(
            provider=entry.distribution,
            path=f"{SCHEME}://",
            config=deepcopy(option_schema(entry)),
            header={"package": None},
        )


def offer_options() -> None:
    """Makes all parts known to Hydra; calling it again changes nothing."""
    logging.getLogger("hydra.utils").disabled = True  # it prints what an error says too
    for plugin in (PluginConfigs, Options):
        Plugins.instance().register(plugin)


@contextmanager
def hydra_ready(job: str = "outrider") -> Iterator[None]:
    """Has Hydra compose configs in the block, from its own entries of the store and no others."""
    with (
        only_hydras_entries(),
        initialize_config_module(CONF_MODULE, job_name=job, version_base="1.3"),
    ):
        yield


@contextmanager
def only_hydras_entries() -> Iterator[None]:
    """Hides what others have put into Hydra's store, which would be merged into ours by name."""
    store = ConfigStore.instance()
    entries, own = store.repo, ("hydra", "_dummy_empty_config_.yaml")
    store.repo = {name: entry for name, entry in entries.items() if name in own}
    try:
        yield
    finally:
        store.repo = entries


def composed(command: str | None, overrides: Sequence[str] = ()) -> DictConfig:
    """Returns the config of a command; Hydra and OmegaConf raise errors of their own.

    command: None for the overrides alone.
    """
    offer_options()
    # A command may ask for the config of another one, and goes on with its own.
    running, own = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
    GlobalHydra.instance().clear()
    try:
        with hydra_ready():
            return hydra_compose(command, overrides=list(overrides))
    finally:
        GlobalHydra.instance().hydra = running
        if running is not None:
            HydraConfig.instance().cfg = own


@cache
def option_schema(entry: Entry) -> DictConfig:
    """Returns the config of a part: its factory's parameters with their defaults.

    Raises `PluginError` if a default is of a type that no config can hold.
    """
    return schema_of(parameters_of(entry), entry.path, entry.claim)


def schema_of(parameters: Mapping[str, Any], target: str, claim: str) -> DictConfig:
    """Returns the config of what a class or function makes; see `option_schema`.

    target: the name that a config calls it by. claim: what it claims to be, for messages.
    """
    values = {name: "???" if it is REQUIRED else it for name, it in parameters.items()}
    try:
        return OmegaConf.create({TARGET: target} | values)
    except OmegaConfBaseException as error:
        raise PluginError(
            f"{claim} has a default that no config can hold: {message_of(error)}"
        ) from error


def _entry_of(path: str) -> Entry | None:
    """Returns the part whose config a path names, such as "drafter/bigram"; None for no part's."""
    role, _, name = path.strip("/").removesuffix(".yaml").rpartition("/")
    return installed().of(role).get(name) if role in ROLES else None
