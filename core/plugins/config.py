"""A command's config, composed of `conf`'s YAML files and the registered parts' options."""

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.bounds import arguments_of, check, is_checked
from outrider.base.calling import error_of
from outrider.base.errors import ANY_FAULT, ConfigError, OutriderError, ProcessEnded, require
from outrider.plugins.entry import Entry
from outrider.plugins.explaining import explain_error, one_line
from outrider.plugins.options import HYDRAS, composed, hydra_ready
from outrider.plugins.parts import TARGET, factory_of
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
    if not (OmegaConf.is_config(node) or isinstance(node, dict | list)):
        return node
    key = node._get_full_key(None) if isinstance(node, DictConfig) else ""
    try:
        return instantiate(node, _convert_="object", **_judged(node, key))
    except OmegaConfBaseException as error:
        raise ConfigError(explain_error(error, "", ())) from error
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, OutriderError):
            raise cause from error
        if cause is not None:
            raise _named(node, key, cause) from error
        reason = one_line(error)
        raise ConfigError(f"{key}: {reason}" if key else reason) from error
    except (OutriderError, ProcessEnded):
        raise
    except ANY_FAULT as error:  # Hydra words an error, which may raise another one
        is_exit = isinstance(error, SystemExit)
        raise _named(node, key, error if is_exit else error.__context__ or error) from error


def _judged(node: Any, key: str) -> Mapping[str, Any]:
    """Returns the arguments that have to be converted for a factory that is not `checked`.

    Raises `ConfigError` for the first that it does not take, or whose value it does not allow.
    """
    if not (isinstance(node, Mapping) and isinstance(node.get(TARGET), str)):
        return {}
    if entry := _entry_at(node[TARGET]):
        entry.check_extra()
        if node.get("_partial_"):
            raise ConfigError(f"{key}._partial_: a part is made at once, expected none")
        _ = entry.factory  # says what is wrong with its module
    if not isinstance(node, DictConfig):
        return {}
    try:
        factory = factory_of(node)
        signature(factory)
    except (ImportError, ValueError):  # `instantiate` raises the first, and C has no signatures
        return {}
    if is_checked(factory):
        return {}
    given: Any = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    parts = {name for name, value in given.items() if isinstance(value, dict) and TARGET in value}
    plain = {name: given[name] for name in given.keys() - parts - HYDRAS}
    if key.startswith("_"):  # of a list, where Hydra has no name for it
        key = getattr(_entry_at(node[TARGET]), "role", "")
    judged = arguments_of(factory, plain, key)
    return {name: value for name, value in judged.items() if value is not plain[name]}


def _entry_at(target: str) -> Entry | None:
    entries = (entry for entry in installed().entries if entry.role in ROLES)
    return next((entry for entry in entries if entry.path == target), None)


def _named(node: Any, key: str, error: BaseException) -> BaseException:
    """Returns what making a part has raised as one line that names it."""
    return error_of(key or "part", factory_of(node), error, ConfigError) or error
