"""A command's config, composed of `conf`'s YAML files and the registered parts' options."""

from collections.abc import Callable, Sequence
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.bounds import arguments_of, check
from outrider.base.calling import calling
from outrider.base.errors import ConfigError, OutriderError, require
from outrider.plugins.explaining import explain_error
from outrider.plugins.options import composed, hydra_ready
from outrider.plugins.parts import TARGET, located
from outrider.plugins.presets import check_own_presets
from outrider.plugins.registry import command_entry, installed
from outrider.plugins.roles import ROLES

MAY_SWEEP = ("-", "+", "~", "hydra=", "hydra.mode", "hydra.searchpath")
"""Prefixes of arguments that are flags, or that may change Hydra's mode."""


def compose(command: str, overrides: Sequence[str] = ()) -> DictConfig:
    """Returns the config of a command, composed as on the command line; `build` makes its parts.

    >>> config = outrider.compose("generate", ["drafter=bigram", "drafter.order=3"])
    >>> outrider.build(config.drafter)

    Raises `ConfigError` if there is no such command, setting or part.
    """
    hints = {"command": str, "overrides": Sequence[str]}
    check(hints, {"command": command, "overrides": overrides})
    has_config = not command_entry(command).source.plain
    require(has_config, "command", command, "one with settings")
    try:
        check_own_presets(overrides)
        return composed(command, overrides)
    except OutriderError:
        raise
    except Exception as error:  # Hydra's own, for a defaults list that is none, say
        raise ConfigError(explain_error(error, command, overrides)) from error


def is_single_run(arguments: Sequence[str]) -> bool:
    """Returns whether the arguments are plain settings, so that they can't ask for a sweep."""
    return not any(argument.startswith(MAY_SWEEP) for argument in arguments)


def run_single(
    function: Callable[[DictConfig], None], command: str, overrides: Sequence[str]
) -> None:
    """Runs a command's function on its config, as `hydra.main` does for a single run.

    `hydra.main` composes the config twice, at first only to see whether it asks for a sweep.
    """
    with hydra_ready(command):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None  # since it is initialised
        hydra.run(command, function, [*overrides, "hydra.mode=RUN"])


def build(node: Any) -> Any:
    """Returns the object that a config describes; an object stands for itself.

    Raises:
        OutriderError: what the object's own code raised, unchanged.
        ConfigError: it can't be made for another reason.
    """
    key = node._get_full_key(None) if isinstance(node, DictConfig) else ""
    if OmegaConf.is_config(node):
        try:
            node = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
        except OmegaConfBaseException as error:
            raise ConfigError(explain_error(error, "", ())) from error
    return _made(node, key)


def _made(node: Any, key: str) -> Any:
    """Returns plain values, with the parts that they describe, however deep, in their places."""
    if isinstance(node, list):
        return [_made(item, key) for item in node]
    if not isinstance(node, dict):
        return node
    inner = ((name, f"{key}.{name}" if key else str(name)) for name in node if name != TARGET)
    values = {name: _made(node[name], place) for name, place in inner}
    if TARGET not in node:
        return values
    parts = (entry for entry in installed().entries if entry.role in ROLES)
    entry = next((entry for entry in parts if entry.path == node[TARGET]), None)
    if key.startswith("_"):  # of a list, where Hydra has no name for it
        key = "" if entry is None else entry.role
    if entry is not None:
        entry.check_extra()
    factory = located(node[TARGET], key or "part") if entry is None else entry.factory
    with calling(key or "part", factory, ConfigError):
        return factory(**arguments_of(factory, values, key, whole=True))
