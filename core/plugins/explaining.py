"""What is wrong with a config, as one line that names the setting and what it could be."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from inspect import signature

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

from outrider.base.errors import OutriderError, message_of, nearest, similar
from outrider.plugins.entry import group_with
from outrider.plugins.options import composed
from outrider.plugins.presets import SEARCH_PATH
from outrider.plugins.registry import command_entry, installed
from outrider.plugins.roles import ROLES, plural

HYDRAS = (HydraException, OmegaConfBaseException)
"""The errors whose messages name the setting."""

GROUPS = (*ROLES, "sampling")
"""The config groups: settings that are chosen by name."""

ADDED = ("experiment", "paper")
"""Groups that commands have no default of."""

ADVICE = ", set env var HYDRA_FULL_ERROR=1 to see chained exception."
"""What Hydra adds to a line, and what is set already."""


def explain_error(error: Exception, command: str, overrides: Sequence[str]) -> str:
    """Returns an error of a config as one line, with the nearest valid name."""
    if isinstance(error.__cause__, OutriderError):  # of a launcher's constructor
        return str(error.__cause__)
    for explain in (
        partial(_of_error, error),
        partial(_of_overrides, command, overrides),
        partial(_of_error, error.__cause__ or error.__context__),
    ):
        with suppress(Exception):  # the config is composed once more, which may fail too
            if line := explain():
                return line
    line = one_line(error) or one_line(error.__cause__ or error)
    return line if isinstance(error, HYDRAS) else f"{command}: {line}"


def _of_error(error: BaseException | None) -> str | None:
    """Returns what an error, or its cause, says of its own place; None if it names none."""
    if isinstance(error, OverrideParseException):
        quoted = "brackets closed, and a text with special characters in quotes"
        return f"{error.override!r}: expected SETTING=VALUE, {quoted}"
    if isinstance(error, MissingConfigException):
        return _of_missing(error)
    if isinstance(error, OmegaConfBaseException) and (key := error.full_key):
        is_gone = isinstance(error, (MissingMandatoryValue, ConfigAttributeError, ConfigKeyError))
        has_value = isinstance(error, (MissingMandatoryValue, ValidationError))
        if key.startswith("hydra.") and not has_value:
            hint = similar(key.rpartition(".")[2], error.parent_node or ())
            return f"{key}: no such setting{hint}"
        return f"{key}: {f'expected a value: {key}=...' if is_gone else str(error).splitlines()[0]}"
    if (mark := getattr(error, "problem_mark", None)) is not None:  # of YAML
        return f"{mark.name}:{mark.line + 1}: {getattr(error, 'problem', 'expected YAML')}"
    if isinstance(error, RecursionError):
        return "a config file names itself among its defaults, or is nested too deeply"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return None


def _of_missing(error: MissingConfigException) -> str:
    """Returns what is wrong with the name of a file that is not there."""
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    library = f"hydra-{name.partition('_')[0]}-{group.partition('/')[2]}"  # as Hydra names them
    if extra := group_with(library):
        return f"{group}={name} needs {library}: pip install 'outrider[{extra}]'"
    if error.options is not None:
        own = "; is the package with one of your own installed?" if group in ROLES else ""
        own = installed().why_missing or own
        return f"{group}={name!r}: {nearest(name, error.options)}{own}"
    return f"{name}.yaml: expected it in a folder that -cd names"


def _of_overrides(command: str, overrides: Sequence[str]) -> str | None:
    """Returns what is wrong with the first setting that the command does not have."""
    words = [word for word in overrides if "=" in word and not word.startswith("-")]
    parsed = OverridesParser.create().parse_overrides(words)
    kind = command_entry(command).source.settings_class
    tops = {it.name for it in fields(kind)} if kind else set(composed(command))
    groups = [group for group in GROUPS if group in tops]
    chosen = (*SEARCH_PATH, *groups)
    may_sweep = "--multirun" in overrides
    for override in parsed:
        if not override.key_or_group:
            return f"{override.input_line!r}: expected SETTING=VALUE"
        if override.is_sweep_override() and not may_sweep:
            line = "expected --multirun, a text with commas in quotes, or a list in brackets"
            return f"{override.input_line!r}: {line}"
        is_one = override.key_or_group in chosen and not override.is_sweep_override()
        if is_one and not isinstance(override.value(), str | list):
            return f"{override.input_line}: expected a name, as in GROUP=NAME"
    names = [it for it in parsed if it.key_or_group in chosen and not it.is_sweep_override()]
    known = composed(command, [it.input_line or "" for it in names])
    lines = (_of_override(it, known, groups, parsed) for it in parsed)
    return next(filter(None, lines), None)


def _of_override(
    override: Override, config: DictConfig, groups: Sequence[str], others: Sequence[Override]
) -> str | None:
    """Returns what is wrong with a setting that a config does not have; None if it has it.

    groups: the groups that the command has, chosen or not. others: what else is set, which may say
        what is meant.
    """
    key, known = override.key_or_group, list(dict.fromkeys([*groups, *keys_of(config)]))
    if override.is_add() or override.is_force_add() or key.startswith("hydra"):
        return None
    if key.endswith("_target_"):  # which every part has, though no user sees it
        return None
    if any(f"{name}.".startswith(f"{key}.") for name in known):
        return None
    above, _, name = key.rpartition(".")
    if above and OmegaConf.select(config, above, default=0) is None:
        value = (override.input_line or "").partition("=")[2]
        return f"{key}={value}: {above} is null; expected {above}={{{name}: {value}}}"
    return f"{key}: no such setting; {_hint(key, known, others)}"


def _hint(key: str, known: Sequence[str], others: Sequence[Override]) -> str:
    """Returns where a setting that the command does not have may be meant to be."""
    group, _, name = key.partition(".")
    if group in ROLES and not name and plural(group) in known:
        given = [it.get_value_element_as_str() for it in others if it.key_or_group == key]
        return f"the command takes {plural(group)}=[{given[0]}]"
    if key in ADDED:
        return f"add it with a plus sign: +{key}=..."
    beside = [it for it in known if it.startswith(f"{group}.")]
    if inner := [it for it in (beside if name else known) if it.endswith(f".{name or group}")]:
        return f"did you mean {' or '.join(map(repr, inner))}?"
    having: list[str] = []
    if name and group in ROLES:
        for entry in installed().of(group).values():
            with suppress(Exception):  # a part that can't be imported has no settings
                if name in signature(entry.factory).parameters:
                    having.append(f"{group}={entry.name}")
    elif not beside:
        commands = ((other, it.settings_class) for other, it in installed().commands.items())
        having = [other for other, kind in commands if kind and group in kind.__dataclass_fields__]
    if having:
        chosen = f"; there are: {', '.join(beside)}" if beside else ""
        return f"{', '.join(having)} {'have' if having[1:] else 'has'} it{chosen}"
    return nearest(key, known)


def keys_of(node: DictConfig, prefix: str = "") -> list[str]:
    """Returns the dotted names of all settings of a config."""
    keys: list[str] = []
    for key in (key for key in map(str, node) if not key.startswith("_")):
        if OmegaConf.is_missing(node, key) or not isinstance(node._get_node(key), DictConfig):
            keys.append(prefix + key)
        else:
            keys += keys_of(node[key], f"{prefix}{key}.") or [prefix + key]
    return keys


def one_line(error: BaseException) -> str:
    """Returns the message of an error in one line, without what Hydra and OmegaConf add to it."""
    return message_of(error).replace(ADVICE, "").partition(" full_key:")[0]
