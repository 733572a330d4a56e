"""Parts by what users call them: a name, a mapping with settings, a class, or an instance."""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

from outrider.base.bounds import arguments_of
from outrider.base.calling import calling
from outrider.base.errors import ConfigError, described, shown
from outrider.plugins.registry import installed
from outrider.plugins.roles import kind_of

TARGET = "_target_"
"""The key of a config that names what makes the part."""

BY_HYDRA = ("outrider.plugins.reading:part_config", "outrider.plugins.config:build")
"""What makes the parts that are not registered by a name."""


def make(role: str, part: Any, **arguments: Any) -> Any:
    """Returns a part of a role, made by its name; an instance of the role is returned as it is.

    part: a name, of a preset too, an instance, or a mapping with settings: of the role to a name,
        such as {"drafter": "bigram", "order": 3}, or of `_target_` to the place of a class. A
        sampling may be its settings alone. For a target, also a hub id, or the folder or GGUF file
        of a transformers model, or a loaded model: alone, with its tokenizer as a pair, or in a
        pipeline of transformers.
    arguments: settings; they override those of a mapping.

    Raises `ConfigError` if there is no part or setting of that name.
    """
    kind, registry = kind_of(role), installed()
    if kind is not None and isinstance(part, kind):
        return part
    if role == "target" and not isinstance(part, str | Mapping):  # a loaded model
        return registry.find(role, "transformers").factory(part, **arguments)
    option, settings = option_of(role, part)
    if (role, option) == ("sampling", "greedy"):  # the preset of its defaults
        factory: Any = kind
    elif isinstance(option, str) and option in registry.of(role):
        entry = registry.find(role, option)
        entry.check_extra()
        factory = entry.factory
    else:
        # Hydra takes long to import, and only presets and places need it.
        part_config, build = map(resolve_name, BY_HYDRA)
        return build(part_config(role, part, arguments))
    given = arguments_of(factory, settings | arguments, role, whole=True)
    with calling(role, factory, ConfigError):
        return factory(**given)


def option_of(role: str, part: Any, said: str = "") -> tuple[Any, dict[str, Any]]:
    """Returns a part and its settings: its name, the factory that `_target_` names, or an instance.

    part: as for `make`. said: what it is, for messages. Defaults to its role and its name.

    Raises `ConfigError` if it is none of these.
    """
    settings = (
        {str(key): value for key, value in part.items()}
        if isinstance(part, Mapping)
        else {role: part}
    )
    said = said or f"{role}={shown(settings.get(role, part))}"
    if isinstance(place := settings.pop(TARGET, None), str):
        return located(place, said), settings
    option, kind = settings.pop(role, "greedy" if role == "sampling" else None), kind_of(role)
    if role == "target" and isinstance(option, str) and option not in installed().of(role):
        is_model = "/" in option or option.endswith(".gguf")  # which no plugin's name is
        return ("transformers", {"model": option} | settings) if is_model else (option, settings)
    if isinstance(option, str) or (kind is not None and isinstance(option, kind)):
        return option, settings
    instance = f", or an instance of {kind.__name__}" if kind is not None else ""
    expected = f"a name, or a mapping with {role!r} or {TARGET!r}{instance}"
    raise ConfigError(f"{said}: expected {expected}")


def located(place: str, said: str) -> Any:
    """Returns what stands at a place; raises `ConfigError` if that can't be imported."""
    try:
        return resolve_name(place)
    except Exception as error:  # whatever importing a module can raise
        raise ConfigError(f"{said}: {described(error)}") from error


def factory_of(node: Mapping[str, Any]) -> Any:
    """Returns the class or function that a part's config names.

    Compare it with an imported class to tell parts apart: names are not unique among plugins.
    """
    return resolve_name(str(node[TARGET]))
