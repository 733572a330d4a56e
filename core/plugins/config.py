"""A command's config, composed of `conf`'s YAML files and the registered parts' options."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import InstantiationException, MissingConfigException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.bounds import check
from outrider.base.errors import ConfigError, OutriderError, RankEnded, described, nearest, require
from outrider.plugins.entry import Entry
from outrider.plugins.explaining import explain_error, one_line
from outrider.plugins.options import CONF_MODULE, composed
from outrider.plugins.presets import check_own_presets
from outrider.plugins.registry import command_entry, installed
from outrider.plugins.roles import ROLES, plural
from outrider.plugins.schema import with_dataclasses

MAY_SWEEP = ("-", "+", "~", "hydra=", "hydra.mode", "hydra.searchpath")
"""Prefixes of arguments that are flags, or that may change Hydra's mode."""


def compose(command: str, overrides: Sequence[str] = ()) -> DictConfig:
    """Returns the config of a command, composed as on the command line; `build` makes its parts.

    >>> config = outrider.compose("generate", ["drafter=bigram", "drafter.order=3"])
    >>> outrider.build(config.drafter)

    Raises:
        ConfigError: there is no such command, setting or part.
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
                node = with_dataclasses(node, factory_of(node))
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
            raise ConfigError(_raised(node, key, cause)) from error
        reason = one_line(error).partition(" full_key:")[0]
        raise ConfigError(f"{key}: {reason}" if key else reason) from error
    except RankEnded:
        raise
    except SystemExit as error:
        raise ConfigError(_raised(node, key, error)) from error


def _entry_at(target: str) -> Entry | None:
    """Returns the part that a `_target_` names."""
    entries = (entry for entry in installed().entries if entry.role in ROLES)
    return next((entry for entry in entries if entry.path == target), None)


def _raised(node: Any, key: str, error: BaseException) -> str:
    """Returns what making a part has raised as one line that names it."""
    package, _, name = str(node.get("_target_")).rpartition(".")
    where = f"{key}: " if key else ""
    return f"{where}{name} raised {described(error, package.partition('.')[0])}"


def factory_of(node: Mapping[str, Any]) -> Any:
    """Returns the class or function that a part's config names.

    Compare it with an imported class to tell parts apart: names are not unique among plugins.
    """
    return get_object(str(node["_target_"]))


def option_configs(role: str, options: Any, beside: Sequence[str] = ()) -> dict[str, DictConfig]:
    """Returns the config of each part in a list of names, or of mappings with arguments.

    >>> option_configs("drafter", ["none", {"drafter": "bigram", "order": 3, "name": "trigram"}])

    Needs Hydra to be initialised, as it is inside a command.

    beside: what an item may have besides its arguments, and has no longer; messages name it.

    Raises:
        ConfigError: `options` is no list, an item is neither a name nor such a mapping, or two
            items have the same name.
    """
    if not isinstance(options, Sequence) or isinstance(options, str):
        examples = ",".join(list(installed().of(role))[:2])
        raise ConfigError(f"{plural(role)}={options!r}: expected a list, such as [{examples}]")
    wanted: dict[str, tuple[str, dict[str, Any]]] = {}
    for item in options:
        arguments = dict(item) if isinstance(item, Mapping) else {role: item}
        option = arguments.pop(role, None)
        if not isinstance(option, str):
            raise ConfigError(
                f"{plural(role)}: {item!r}: expected a name, or a mapping with {role!r}"
            )
        name = str(arguments.pop("name", option))
        if name in wanted:
            raise ConfigError(
                f"{plural(role)}: two are named {name!r}: expected another name for one of them,"
                f" as in {{{role}: {option}, name: ...}}"
            )
        wanted[name] = option, arguments
    # One composition for all: each option gets a key of its own.
    overrides = [f"+{role}@_{i}={option}" for i, (option, _) in enumerate(wanted.values())]
    sources = GlobalHydra.instance().config_loader().get_sources()
    paths = (source.full_path() for source in sources)
    try:
        composed = deepcopy(
            _composed_options(tuple(overrides), *installed().of(role).values(), *paths)
        )
    except MissingConfigException as error:
        name = (error.missing_cfg_file or "").rpartition("/")[2]
        raise ConfigError(
            f"{plural(role)}: {name!r}: {nearest(name, error.options or ())}"
        ) from error
    configs = {name: composed[f"_{i}"] for i, name in enumerate(wanted)}
    for name, (_, arguments) in wanted.items():
        set_arguments(configs[name], arguments, f"{plural(role)}: {name}", beside)
    return configs


@lru_cache
def _composed_options(overrides: tuple[str, ...], *_sources: Hashable) -> DictConfig:
    """Returns the composed overrides; they are composed only once for all jobs of a sweep.

    _sources: where the options come from, as a part of the cache's key.
    """
    return hydra_compose(overrides=list(overrides))


def set_arguments(
    config: DictConfig, arguments: Mapping[str, Any], prefix: str, beside: Sequence[str] = ()
) -> None:
    """Sets arguments of a part in its config.

    prefix: what the arguments are of, for messages. beside: what they are beside, likewise.

    Raises:
        ConfigError: the part has no such argument, or it takes no such value.
    """
    known = [str(key) for key in config if key != "_target_"]
    for key, value in arguments.items():
        if key not in known:  # `key in config` would be false for a parameter without a default
            raise ConfigError(f"{prefix}.{key}: {nearest(key, [*known, *beside])}")
        try:
            config[key] = value
        except OmegaConfBaseException as error:
            raise ConfigError(f"{prefix}.{key}={value!r}: {one_line(error)}") from error


def plain_values(node: Any) -> Any:
    """Returns a config as plain dicts and lists, for reports; missing values stay '???'."""
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
