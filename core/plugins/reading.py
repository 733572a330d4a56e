"""A command's composed config, read as its dataclass: lists of parts become their configs."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar

from hydra import compose as hydra_compose
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import MissingConfigException
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.annotations import hints_of
from outrider.base.bounds import Name, values_of
from outrider.base.errors import ConfigError, described, nearest, shown, similar
from outrider.base.terminal import plain, remarks
from outrider.plugins.explaining import ADDED, explain_error, one_line
from outrider.plugins.options import TARGET, hydra_ready, offer_options, schema_of
from outrider.plugins.registry import installed
from outrider.plugins.roles import ROLES, Listed, kind_of, plural
from outrider.plugins.source import in_signature

GLOBAL = "# @package _global_"
"""The first line of a file whose settings are those of the command."""

Settings = TypeVar("Settings")
Item = tuple[Any, dict[str, Any], dict[str, Any]]
"""A part, its settings, and what an item of a list has beside them.

The part is its name, its class in a tuple, or an instance.
"""


def read_settings(
    settings: type[Settings],
    config: DictConfig,
    prefix: str = "",
    given: Mapping[str, Any] | None = None,
) -> Settings:
    """Returns a command's config as an instance of its dataclass.

    given: values from Python in place of the config's, instances of parts among them.

    Raises:
        ConfigError: a value is out of its bounds, or a list of parts names none.
        MissingMandatoryValue: a setting has no value.
    """
    hints = hints_of(settings)
    values: dict[str, Any] = {}
    if not prefix:
        _remark_on_other_keys(settings, config)
    for it in fields(settings):  # type: ignore[arg-type]
        name, has_value = it.name, it.default is MISSING or it.name in config.keys()  # noqa: SIM118
        value: Any = config[name] if has_value else it.default
        if name in (given or {}):
            value = (given or {})[name]
        elif is_dataclass(hints[name]):
            value = read_settings(hints[name], value, f"{prefix}{name}.")
        elif OmegaConf.is_config(value) and TARGET not in value:
            value = OmegaConf.to_container(value, resolve=True)
            check_is_part(name, value)
        values[name] = value
    values = values_of(hints, values, prefix.rstrip("."))
    for name, hint in hints.items():
        for kind in getattr(hint, "__metadata__", ()):
            if isinstance(kind, Listed) and (value := values[name]) is not None:
                is_one = kind.or_one and isinstance(value, str)
                values[name] = option_configs(kind.role, [value] if is_one else value, kind.own)
    return settings(**values)


def check_is_part(name: str, value: Any, role: str | None = None) -> None:
    """Raises `ConfigError` if a setting for a part is a mapping or a list that names none.

    role: if it is not the name.
    """
    if (role or name) in ROLES and "_target_" not in value:
        first = next(iter(installed().of(role or name)))
        expected = f"a part; a preset begins with the one that it sets: defaults: [{first}]"
        raise ConfigError(f"{name}={shown(value)}: expected {expected}")


def _remark_on_other_keys(settings: type, config: DictConfig) -> None:
    """Says which keys change nothing: those of an experiment that no setting refers to.

    Raises `ConfigError` if that is all of an experiment.
    """
    known = [it.name for it in fields(settings)]
    text = str(OmegaConf.to_container(config, resolve=False))
    for key in map(str, config):
        if key not in (*known, "hydra") and f"${{{key}" not in text:
            if key in ADDED:
                expected = f"a file that begins with {GLOBAL!r}, and settings below it"
                raise ConfigError(f"{key}={shown(config[key])}: expected {expected}")
            line = f"{key}: no such setting, it changes nothing{similar(key, known)}"
            remarks().print(plain(line, "yellow"), soft_wrap=True)


def part_config(role: str, part: Any, arguments: Mapping[str, Any] | None = None) -> Any:
    """Returns the config of one part, as an item of `option_configs` is given; or an instance.

    A sampling may be its settings alone, and a target a hub id, a folder, or a GGUF file.
    """
    item = (
        {str(name): value for name, value in part.items()}
        if isinstance(part, Mapping)
        else {role: part}
    )
    if role == "sampling" and TARGET not in item:
        item = {role: "greedy"} | item
    if role == "target" and isinstance(part, str) and part not in installed().of(role):
        is_path = "/" in part or part.endswith(".gguf")  # or a hub id, and no plugin's name
        item = {role: "transformers", "model": part} if is_path else item
    (config,) = option_configs(role, [item | dict(arguments or {})], field=role).values()
    return config


def option_configs(
    role: str, options: Any, own: Mapping[str, Any] | None = None, field: str = ""
) -> dict[str, Any]:
    """Returns the config of each part in a list of names, or of mappings with arguments.

    >>> option_configs("drafter", ["none", {"drafter": "bigram", "order": 3, "name": "trigram"}])

    In place of the name, a mapping may have `_target_`, the place of a class or function; and an
    item may be an instance, which stands for itself. One with `optional: true` is left out where no
    plugin brings its part.

    own: see `Listed`. An item that has any of it is named by it: `token_recycling (candidates)`.
    field: what the setting is called. Defaults to the plural of the role.

    Raises `ConfigError` if `options` is no list, an item is none of these, has what its part does
    not take or lacks what it needs, or has the name of another.
    """
    items = _items(role, options, own or {}, field)
    # One composition for all: each option gets a key of its own.
    named = {i: option for i, (option, *_) in enumerate(items.values()) if isinstance(option, str)}
    overrides = [f"+{role}@_{i}={name}" for i, name in named.items()]
    overrides += ["+seed=null"] * (field == "sampling")  # a preset's is that of comparisons
    context: Any = nullcontext()  # inside a command Hydra is ready
    if not GlobalHydra.instance().is_initialized():
        offer_options()
        context = hydra_ready()
    with context:
        sources = GlobalHydra.instance().config_loader().get_sources()
        paths = (source.full_path() for source in sources)
        try:
            composed = deepcopy(
                _composed_options(tuple(overrides), *installed().of(role).values(), *paths)
            )
        except MissingConfigException as error:
            name = (error.missing_cfg_file or "").rpartition("/")[2]
            said = f"{field}={name!r}" if field else f"{plural(role)}: {name!r}"
            hint = f"{nearest(name, error.options or ())}{installed().why_missing}"
            raise ConfigError(f"{said}: {hint}") from error
        except Exception as error:  # of a preset that can't be read
            raise ConfigError(explain_error(error, field or plural(role), ())) from error
    configs: dict[str, Any] = {}
    for i, (name, (option, arguments, beside)) in enumerate(items.items()):
        prefix = field or f"{plural(role)}: {name}"
        config = composed[f"_{i}"] if i in named else option
        if isinstance(option, tuple):
            config = schema_of(in_signature(option[0]), option[1], prefix)
        if OmegaConf.is_config(config):
            check_is_part(prefix, config, role)
            _complete(config, arguments, prefix, f"{role}: {name}", own or ())
        elif arguments:
            raise ConfigError(f"{prefix}.{next(iter(arguments))}: an instance has its settings")
        if own:
            beside = values_of(own, beside, prefix)
            config = {role: config} | {key: _own(key, value) for key, value in beside.items()}
        configs[name] = config
    return configs


def _complete(
    config: DictConfig, arguments: Mapping[str, Any], prefix: str, said: str, beside: Iterable[str]
) -> None:
    """Sets arguments of a part in its config; raises `ConfigError` if it lacks one.

    said: how the part is named in a list.
    """
    set_arguments(config, arguments, prefix, beside)
    if lacking := sorted(OmegaConf.missing_keys(config)):
        key = lacking[0].removeprefix(f"{config._get_full_key(None)}.")
        example = f"{{{said}, {key.partition('.')[0]}: ...}}"
        raise ConfigError(f"{prefix}.{key}: expected a value, as in {example}")


def _items(role: str, options: Any, own: Mapping[str, Any], field: str) -> dict[str, Item]:
    """Returns the items of a list by their names."""
    if not isinstance(options, Sequence) or isinstance(options, str):
        examples = ",".join(list(installed().of(role))[:2])
        raise ConfigError(f"{plural(role)}={options!r}: expected a list, such as [{examples}]")
    items: dict[str, Item] = {}
    for item in options:
        arguments = dict(item) if isinstance(item, Mapping) else {role: item}
        said = (
            f"{field}={shown(item.get(role, item))}" if field else f"{plural(role)}: {shown(item)}"
        )
        option = _option(role, arguments, said)
        label = option if isinstance(option, str) else _label(option)
        if arguments.pop("optional", False) and label not in installed().of(role):
            continue
        beside = {key: arguments.pop(key) for key in own if key in arguments}
        said = ", ".join(_said(key, value) for key, value in beside.items())
        given = {"name": arguments.pop("name", f"{label} ({said})" if said else label)}
        name = values_of({"name": Name}, given, plural(role))["name"]
        if name in items:
            raise ConfigError(
                f"{plural(role)}: two are named {name!r}: expected another name for one of them,"
                f" as in {{{role}: {label}, name: ...}}"
            )
        items[name] = option, arguments, beside
    return items


def _option(role: str, arguments: dict[str, Any], said: str) -> Any:
    """Returns the part of an item, as `Item` has it, which is taken out of its arguments.

    said: what the item is, for messages.
    """
    if isinstance(place := arguments.pop(TARGET, None), str):
        try:
            return get_object(place), place
        except Exception as error:  # whatever importing a module can raise
            raise ConfigError(f"{said}: {described(error.__cause__ or error)}") from error
    option, kind = arguments.pop(role, None), kind_of(role)
    if isinstance(option, str) or (kind is not None and isinstance(option, kind)):
        return option
    instance = f", or an instance of {kind.__name__}" if kind is not None else ""
    expected = f"a name, or a mapping with {role!r} or {TARGET!r}{instance}"
    raise ConfigError(f"{said}: expected {expected}")


def _label(option: Any) -> str:
    """Returns the name of a part that has none: that of its class."""
    return str(option[0].__name__ if isinstance(option, tuple) else type(option).__name__)


def _said(key: str, value: Any) -> str:
    if key not in ROLES:
        return f"{key} {value}"
    return str(value.get("name", value.get(key)) if isinstance(value, Mapping) else value)


def _own(key: str, value: Any) -> Any:
    return next(iter(option_configs(key, [value]).values())) if key in ROLES else value


@lru_cache
def _composed_options(overrides: tuple[str, ...], *_sources: Hashable) -> DictConfig:
    """Returns the composed overrides; they are composed only once for all jobs of a sweep.

    _sources: where the options come from, as a part of the cache's key.
    """
    return hydra_compose(overrides=list(overrides))


def set_arguments(
    config: DictConfig, arguments: Mapping[str, Any], prefix: str, beside: Iterable[str] = ()
) -> None:
    """Sets arguments of a part in its config.

    prefix: what the arguments are of, for messages. beside: what they are beside, likewise.

    Raises `ConfigError` if the part has no such argument, or it takes no such value.
    """
    known = [str(key) for key in config if key != TARGET]
    for key, value in arguments.items():
        if key not in known:  # `key in config` would be false for a parameter without a default
            raise ConfigError(f"{prefix}.{key}: {nearest(key, [*known, *beside])}")
        try:
            config[key] = value
        except OmegaConfBaseException as error:
            raise ConfigError(f"{prefix}.{key}={value!r}: {one_line(error)}") from error


def plain_settings(settings: Any) -> dict[str, Any]:
    """Returns settings as plain dicts and lists, for reports."""
    return {it.name: plain_values(getattr(settings, it.name)) for it in fields(settings)}


def plain_values(value: Any) -> Any:
    """Returns a config as plain dicts and lists, for reports; missing values stay '???'.

    An instance is named by its class, as a config would name it.
    """
    if OmegaConf.is_config(value):
        return OmegaConf.to_container(value, resolve=True)
    if isinstance(value, Mapping):
        return {key: plain_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and type(value).__module__.startswith("outrider."):
        return plain_settings(value)
    return {TARGET: f"{type(value).__module__}.{type(value).__qualname__}"}
