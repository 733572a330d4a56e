"""A command's composed config, read as its dataclass: lists of parts become their configs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from hydra import compose as hydra_compose
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from outrider.base.bounds import Name, values_of
from outrider.base.calling import hints_of
from outrider.base.errors import ConfigError, nearest, shown, similar
from outrider.base.terminal import remark
from outrider.plugins.explaining import ADDED, GROUPS, explain_error, one_line
from outrider.plugins.hookspecs import Command
from outrider.plugins.options import composed, schema_of
from outrider.plugins.parts import TARGET, option_of
from outrider.plugins.registry import installed
from outrider.plugins.roles import ROLES, Listed, kind_of, plural
from outrider.plugins.source import in_signature

GLOBAL = "# @package _global_"
"""The first line of a file whose settings are those of the command."""

Settings = TypeVar("Settings")
Item = tuple[Any, dict[str, Any], dict[str, Any]]
"""A part, its settings, and what an item of a list has beside them.

The part is as `option_of` has it.
"""


def settings_of(command: Command, config: DictConfig) -> Any:
    """Returns a command's config as its settings; one taken away, as by `~policy`, has its default.

    Raises as `read_settings` does.
    """
    kind: Any = command.settings_class
    if gone := {it.name for it in fields(kind) if it.default is MISSING} - {*map(str, config)}:
        defaults = composed(command.name)
        with open_dict(config):
            config.update({name: defaults[name] for name in gone})
    return read_settings(kind, config)


def read_settings(
    settings: type[Settings], config: DictConfig, given: Mapping[str, Any] | None = None
) -> Settings:
    """Returns a command's config as an instance of its dataclass.

    given: values from Python in place of the config's, instances of parts among them.

    Raises:
        ConfigError: a value is out of its bounds, or a list of parts names none.
        MissingMandatoryValue: a setting has no value.
    """
    hints = hints_of(settings)
    values: dict[str, Any] = {}
    _remark_on_other_keys(settings, config)
    for it in fields(settings):  # type: ignore[arg-type]
        name, has_value = it.name, it.default is MISSING or it.name in config.keys()  # noqa: SIM118
        value: Any = config[name] if has_value else it.default
        if name in (given or {}):
            value = (given or {})[name]
        elif OmegaConf.is_config(value) and TARGET not in value:
            value = OmegaConf.to_container(value, resolve=True)
            check_is_part(name, value)
        values[name] = value
    values = values_of(hints, values)
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
    if (role or name) in GROUPS and TARGET not in value:
        first = "standard" if name == "sampling" else next(iter(installed().of(role or name)))
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
            remark(f"{key}: no such setting, it changes nothing{similar(key, known)}", "yellow")


def part_config(role: str, part: Any, arguments: Mapping[str, Any] | None = None) -> Any:
    """Returns the config of one part, given as `outrider.plugins.parts.make` takes it."""
    item = part if isinstance(part, Mapping) else {role: part}
    (config,) = option_configs(role, [{**item, **(arguments or {})}], field=role).values()
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
    field: the setting that is one part, whose settings may then have any name.

    Raises `ConfigError` if `options` is no list, an item is none of these, has what its part does
    not take or lacks what it needs, or has the name of another.
    """
    own, kind = own or {}, kind_of(role)
    items = _items(role, options, own, field)
    # One composition for all: each option gets a key of its own.
    overrides = [
        f"+{role}@_{i}={json.dumps(option, ensure_ascii=False)}"
        for i, (option, *_) in enumerate(items.values())
        if isinstance(option, str)
    ]
    overrides += ["+seed=null"] * (field == "sampling")  # a preset's is that of comparisons
    try:
        is_inside = GlobalHydra.instance().is_initialized()  # a command, whose search path it has
        found = hydra_compose(overrides=overrides) if is_inside else composed(None, overrides)
    except MissingConfigException as error:
        name = (error.missing_cfg_file or "").rpartition("/")[2]
        said = f"{field}={name!r}" if field else f"{plural(role)}: {name!r}"
        hint = f"{nearest(name, error.options or ())}{installed().why_missing}"
        raise ConfigError(f"{said}: {hint}") from error
    except Exception as error:  # of a preset that can't be read
        raise ConfigError(explain_error(error, field or plural(role), ())) from error
    configs: dict[str, Any] = {}
    for i, (name, (config, arguments, beside)) in enumerate(items.items()):
        prefix = field or f"{plural(role)}: {name}"
        if kind is not None and isinstance(config, kind):
            if arguments:
                raise ConfigError(f"{prefix}.{next(iter(arguments))}: an instance has its settings")
        else:
            if isinstance(config, str):
                config = found[f"_{i}"]
            else:
                place = f"{config.__module__}.{config.__qualname__}"
                config = schema_of(in_signature(config), place, prefix)
            check_is_part(prefix, config, role)
            set_arguments(config, arguments, prefix, own)
            if lacking := sorted(OmegaConf.missing_keys(config)):
                key = lacking[0].removeprefix(f"{config._get_full_key(None)}.")
                example = f"{{{role}: {name}, {key.partition('.')[0]}: ...}}"
                raise ConfigError(f"{prefix}.{key}: expected a value, as in {example}")
        if own:
            config = {role: config}
            for key, value in values_of(own, beside, prefix).items():
                config[key] = part_config(key, value) if key in ROLES else value
        configs[name] = config
    return configs


def _items(role: str, options: Any, own: Mapping[str, Any], field: str) -> dict[str, Item]:
    if not isinstance(options, Sequence) or isinstance(options, str):
        examples = ",".join(list(installed().of(role))[:2])
        raise ConfigError(f"{plural(role)}={options!r}: expected a list, such as [{examples}]")
    items: dict[str, Item] = {}
    for item in options:
        option, arguments = option_of(role, item, "" if field else f"{plural(role)}: {shown(item)}")
        label = option
        if not isinstance(option, str):
            label = getattr(option, "__name__", type(option).__name__)
        if field:
            return {label: (option, arguments, {})}
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


def _said(key: str, value: Any) -> str:
    if key not in ROLES:
        return f"{key} {value}"
    return str(value.get("name", value.get(key)) if isinstance(value, Mapping) else value)


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
