"""What is wrong with a config, as one line that names the setting and what it could be."""

import re
from collections.abc import Sequence
from contextlib import suppress
from inspect import signature
from typing import Any

import yaml
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
)
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from outrider.base.bounds import expected
from outrider.base.errors import message_of, nearest
from outrider.plugins.options import composed
from outrider.plugins.presets import own_folders
from outrider.plugins.registry import command_entry, installed
from outrider.plugins.roles import ROLES, plural
from outrider.plugins.schema import ADDED, hint_of

HYDRAS = (HydraException, OmegaConfBaseException)
"""The errors whose messages name the setting."""

GROUPS = (*ROLES, "sampling")
"""The config groups: settings that are chosen by name."""

ADVICE = ", set env var HYDRA_FULL_ERROR=1 to see chained exception."
"""What Hydra adds to a line, and what is set already."""

ONLY_GENERATE = ("penalties", "constraint")
"""Settings that change the distribution of a text; measurements are of the target's own."""


def explain_error(error: Exception, command: str, overrides: Sequence[str]) -> str:
    """Returns an error of a config as one line, with the nearest valid name."""
    try:
        return _explained(error, command, overrides)
    except Exception:  # noqa: BLE001  the config is composed once more, which may fail too
        return one_line(error)


def _explained(error: Exception, command: str, overrides: Sequence[str]) -> str:
    message = one_line(error)
    if isinstance(error, RecursionError):
        return f"{command}: a config names itself among its defaults"
    if isinstance(error, OverrideParseException):
        return f"{error.override!r}: expected {_form_of(error.override)}"
    if message.startswith("Ambiguous value"):
        override = message.split("'")[1]
        return f"{override!r}: expected a text with commas in quotes, or a list in brackets"
    if "Config group override" in message:
        return f"{_without_name(overrides)}: expected a name, as in GROUP=NAME"
    if isinstance(error, MissingConfigException) and error.options is not None:
        group, _, name = (error.missing_cfg_file or "").rpartition("/")
        own = "; is the package with one of your own installed?" if group in ROLES else ""
        return f"{group}={name!r}: {nearest(name, error.options)}{own}"
    if isinstance(error, ConfigCompositionException):
        return _of_override(error, command, overrides) or message
    if isinstance(error, OmegaConfBaseException) and (key := error.full_key):
        is_gone = isinstance(error, (MissingMandatoryValue, ConfigAttributeError, ConfigKeyError))
        return f"{key}: {f'expected a value: {key}=...' if is_gone else str(error).splitlines()[0]}"
    if isinstance(error.__cause__, OSError) and error.__cause__.filename:
        return f"{error.__cause__.filename}: {error.__cause__.strerror}"
    return message if isinstance(error, HYDRAS) else f"{command}: {message}"


def _form_of(override: str) -> str:
    """Returns how a setting is written that Hydra could not read."""
    name, equals, value = override.partition("=")
    is_name = bool(equals) and re.fullmatch(r"[+~]{0,2}[\w.@/:-]+", name) is not None
    if not is_name:
        return "SETTING=VALUE"
    if value[:1] in ("[", "{", "'", '"'):
        return f"{value[0]} to be closed, and a text with special characters in quotes"
    return f"a text with special characters in quotes, as in {name}='...'"


def _without_name(overrides: Sequence[str]) -> str:
    """Returns the first choice of a part that gives no name."""
    pairs = ((override, override.lstrip("+").partition("=")) for override in overrides)
    no_names = (
        it
        for it, (group, _, name) in pairs
        if group in ("", *GROUPS) and not isinstance(yaml.safe_load(name), str)
    )
    return next(no_names, "a part")


def _of_override(
    error: ConfigCompositionException, command: str, overrides: Sequence[str]
) -> str | None:
    """Returns what is wrong with a setting that Hydra could not apply."""
    message = one_line(error)
    if "Could not override '" in message:
        key = message.split("Could not override '")[1].split("'")[0]
        if key.partition(".")[0] in ONLY_GENERATE and command != "generate":
            return f"{key}: only `outrider generate` takes it, {command} uses the target as it is"
        config = composed(command, _chosen(overrides, but=key))
        if line := _below_null(config, overrides):
            return line
        return f"{key}: no such setting; {_hint(key, overrides, _keys(config))}"
    if error.__cause__ is not None:
        override = message.removeprefix("Error merging override ")
        key, _, value = override.lstrip("+").partition("=")
        hint = _hint_of(key, command, overrides)
        if hint is not Any:
            return f"{key}={value!r}: expected {expected(hint, value)}"
        return f"{override}: {str(error.__cause__).splitlines()[0]}"
    return None


def _below_null(config: DictConfig, overrides: Sequence[str]) -> str:
    """Returns what is wrong with a setting of a mapping that is null, "" if there is none."""
    for override in overrides:
        name, _, value = override.lstrip("+").partition("=")
        above, _, key = name.rpartition(".")
        if above and OmegaConf.select(config, above, default=0) is None:
            return f"{name}={value}: {above} is null; expected {above}={{{key}: {value}}}"
    return ""


def _hint(key: str, overrides: Sequence[str], known: Sequence[str]) -> str:
    """Returns where a setting that the command does not have may be meant to be."""
    group, _, name = key.partition(".")
    if not name and group in ROLES and plural(group) in known:
        given = [value for each in overrides for value in [each.partition("=")] if value[0] == key]
        return f"the command takes {plural(group)}=[{given[0][2] if given else '...'}]"
    if key in ADDED:
        return f"add it with a plus sign: +{key}=..."
    own = [it for it in known if name and it.startswith(f"{group}.")]
    if inner := [it for it in own if it.endswith(f".{name}")]:
        return f"did you mean {' or '.join(map(repr, inner))}?"
    having: list[str] = []
    for entry in installed().of(group).values() if name and group in ROLES else ():
        with suppress(Exception):  # a part that can't be imported takes no part in this
            if name in signature(entry.factory).parameters:
                having.append(f"{group}={entry.name}")
    if not name:
        commands = ((other, it.settings_class) for other, it in installed().commands.items())
        having = [other for other, kind in commands if kind and key in kind.__dataclass_fields__]
    if having:
        chosen = f"; there are: {', '.join(own)}" if own else ""
        return f"{', '.join(having)} {'have' if having[1:] else 'has'} it{chosen}"
    return nearest(key, known)


def _chosen(overrides: Sequence[str], but: str) -> list[str]:
    """Returns the overrides that choose a part by name, all but the one that is at fault."""
    names = ((override, override.partition("=")[0]) for override in overrides)
    chosen = [override for override, name in names if name in GROUPS and name != but]
    folders = ",".join(f'"{folder}"' for folder in own_folders(overrides))
    return [f"hydra.searchpath=[{folders}]", *chosen] if folders else chosen


def _hint_of(key: str, command: str, overrides: Sequence[str]) -> Any:
    """Returns the annotation of a setting of the command, or of one of its chosen parts."""
    config = composed(command, _chosen(overrides, but=key))
    group = key.partition(".")[0]
    node = config.get(group) if group != key and group in ROLES else None
    factories = {} if node is None else {group: get_object(str(node["_target_"]))}
    return hint_of(key, command_entry(command).source.settings_class, factories)


def _keys(node: DictConfig, prefix: str = "") -> list[str]:
    keys: list[str] = []
    for key in (key for key in map(str, node) if not key.startswith("_")):
        if OmegaConf.is_missing(node, key) or not isinstance(node[key], DictConfig):
            keys.append(prefix + key)
        else:
            keys += _keys(node[key], f"{prefix}{key}.")
    return keys


def one_line(error: BaseException) -> str:
    """Returns the message of an error in one line."""
    return message_of(error).replace(ADVICE, "")
