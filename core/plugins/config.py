"""A command's config, composed of `conf`'s YAML files and the registered parts' options."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Any, get_args

from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.annotations import hints_of, plain_type
from outrider.base.bounds import check
from outrider.base.calling import error_of
from outrider.base.errors import ConfigError, OutriderError, ProcessEnded, require
from outrider.plugins.entry import Entry
from outrider.plugins.explaining import explain_error, one_line
from outrider.plugins.options import CONF_MODULE, composed
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
    with initialize_config_module(CONF_MODULE, job_name=command, version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None  # since it is initialised
        hydra.run(command, function, [*overrides, "hydra.mode=RUN"])


def build(node: Any) -> Any:
    """Returns the object that a config describes.

    Raises:
        OutriderError: what the object's own code raised, unchanged.
        ConfigError: it can't be made for another reason.
    """
    key = node._get_full_key(None) if isinstance(node, DictConfig) else ""
    try:
        if isinstance(node, DictConfig) and isinstance(node.get("_target_"), str):
            with suppress(ImportError):  # which is explained below
                factory = factory_of(node)
                _check_literals(node, hints_of(factory), key)
                node = _with_dataclasses(node, factory)
        return instantiate(node, _convert_="object")
    except OmegaConfBaseException as error:
        raise ConfigError(explain_error(error, "", ())) from error
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, OutriderError):
            raise cause from error
        if isinstance(cause, ModuleNotFoundError) and (entry := _entry_at(node["_target_"])):
            raise entry.explained(cause) from error
        if cause is not None:
            raise _named(node, key, cause) from error
        reason = one_line(error).partition(" full_key:")[0]
        raise ConfigError(f"{key}: {reason}" if key else reason) from error
    except ProcessEnded:
        raise
    except SystemExit as error:
        raise _named(node, key, error) from error


def _check_literals(node: DictConfig, hints: Mapping[str, Any], key: str) -> None:
    """Raises `ConfigError` for a name that is not among those listed; OmegaConf takes any."""
    listed = {name for name, hint in hints.items() if "Literal[" in str(hint)}
    check(hints, {name: node[name] for name in listed & node.keys()}, key)


def _entry_at(target: str) -> Entry | None:
    """Returns the part that a `_target_` names."""
    entries = (entry for entry in installed().entries if entry.role in ROLES)
    return next((entry for entry in entries if entry.path == target), None)


def _named(node: Any, key: str, error: BaseException) -> BaseException:
    """Returns what making a part has raised as one line that names it."""
    return error_of(key or "part", factory_of(node), error, ConfigError) or error


def _with_dataclasses(node: DictConfig, factory: Any) -> DictConfig:
    """Returns a part's config, with the mappings that its factory takes as dataclasses as such.

    Raises `OmegaConfBaseException` if a mapping has a key or a value that its dataclass has not.
    """
    made = node.copy()
    for name, hint in hints_of(factory).items():
        kinds = [it for it in get_args(plain_type(hint)) if is_dataclass(it)]
        given = OmegaConf.select(node, name) if kinds else None
        if isinstance(given, DictConfig) and OmegaConf.get_type(given) is dict:
            made[name] = OmegaConf.merge(OmegaConf.structured(kinds[0]), given)
    return made


def factory_of(node: Mapping[str, Any]) -> Any:
    """Returns the class or function that a part's config names.

    Compare it with an imported class to tell parts apart: names are not unique among plugins.
    """
    return get_object(str(node["_target_"]))
