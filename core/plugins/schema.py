"""A command's settings as a dataclass, which gives Hydra the types and bounds."""

from collections.abc import Mapping
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from typing import Any, TypeVar, get_args, get_origin

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.annotations import hints_of, plain_type
from outrider.base.bounds import check
from outrider.base.errors import similar
from outrider.base.terminal import plain, remarks

ADDED = ("experiment", "paper")
"""Groups that commands have no default of."""

GLOBAL = "# @package _global_"
"""The first line of a file whose settings are those of the command."""

Settings = TypeVar("Settings")


def settings_schema(settings: type) -> DictConfig:
    """Returns a config with the types of a dataclass; what has no default there is missing.

    A sweep or an experiment may add keys, as to any config.
    """
    hints = hints_of(settings)
    typed = [
        typed_field(it.name, hints[it.name], "???" if it.default is MISSING else it.default)
        for it in fields(settings)
    ]
    schema: DictConfig = OmegaConf.structured(make_dataclass(settings.__name__, typed))
    schema._metadata.object_type = dict
    return schema


def typed_field(name: str, hint: Any, default: Any) -> tuple[str, Any, Any]:
    """Returns a field for `make_dataclass`, without a type that OmegaConf does not know.

    Whoever takes such a value checks it then.
    """
    typed = (name, plain_type(hint), field(default_factory=lambda: default))
    # OmegaConf can't replace null with a mapping where the type is `dict | None`, or a dataclass.
    options = get_args(typed[1])
    is_mapping = any(get_origin(it) is dict or is_dataclass(it) for it in options)
    try:
        if is_dataclass(typed[1]) or (type(None) in options and is_mapping):
            raise OmegaConfBaseException
        OmegaConf.structured(make_dataclass("Probe", [typed]))
    except (OmegaConfBaseException, NameError):  # one inside it that is imported for checkers only
        return (name, Any, typed[2])
    return typed


def with_dataclasses(node: DictConfig, factory: Any) -> DictConfig:
    """Returns a part's config, with the mappings that its factory takes as dataclasses as such.

    Raises:
        OmegaConfBaseException: a mapping has a key or a value that its dataclass has not.
    """
    made = node.copy()
    for name, hint in hints_of(factory).items():
        kinds = [it for it in get_args(plain_type(hint)) if is_dataclass(it)]
        given = OmegaConf.select(node, name) if kinds else None
        if isinstance(given, DictConfig) and OmegaConf.get_type(given) is dict:
            made[name] = OmegaConf.merge(OmegaConf.structured(kinds[0]), given)
    return made


def read_settings(settings: type[Settings], config: DictConfig, prefix: str = "") -> Settings:
    """Returns a command's config as an instance of its dataclass.

    Raises:
        ConfigError: a value is out of its bounds.
        MissingMandatoryValue: a setting has no value.
    """
    hints = hints_of(settings)
    values: dict[str, Any] = {}
    if not prefix:
        _remark_on_other_keys(settings, config)
    for name in (it.name for it in fields(settings)):  # type: ignore[arg-type]
        value = config[name]
        if is_dataclass(hints[name]):
            value = read_settings(hints[name], value, f"{prefix}{name}.")
        elif OmegaConf.is_config(value) and "_target_" not in value:
            value = OmegaConf.to_container(value, resolve=True)
        values[name] = value
    check(hints, values, prefix.rstrip("."))
    return settings(**values)


def _remark_on_other_keys(settings: type, config: DictConfig) -> None:
    """Says which keys change nothing: those of an experiment that no setting refers to."""
    known = [it.name for it in fields(settings)]
    text = str(OmegaConf.to_container(config, resolve=False))
    for key in map(str, config):
        if key not in (*known, "hydra") and f"${{{key}" not in text:
            hint = f"; a file begins with {GLOBAL!r}" if key in ADDED else similar(key, known)
            line = f"{key}: no such setting, it changes nothing{hint}"
            remarks().print(plain(line, "yellow"), soft_wrap=True)


def plain_settings(settings: Any) -> dict[str, Any]:
    """Returns settings as plain dicts and lists, for reports."""
    values = {it.name: getattr(settings, it.name) for it in fields(settings)}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return plain_settings(value)
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def hint_of(path: str, settings: type | None, factories: Mapping[str, Any]) -> Any:
    """Returns the annotation of a setting by its dotted name; `Any` if there is none.

    factories: by group, what makes the chosen part.
    """
    group, _, name = path.partition(".")
    if name and group in factories:
        return hints_of(factories[group]).get(name, Any)
    hint: Any = Any if settings is None else hints_of(settings).get(group, Any)
    if not name:
        return hint
    return hints_of(hint).get(name, Any) if isinstance(hint, type) and is_dataclass(hint) else Any
