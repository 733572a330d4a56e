"""A command's settings as a dataclass, which gives Hydra the types and bounds."""

from collections.abc import Mapping
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from typing import Any, get_args, get_origin

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from outrider.base.annotations import hints_of, plain_type

ADDED = ("experiment", "paper")
"""Groups that commands have no default of."""


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
