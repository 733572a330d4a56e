"""Settings: what their annotations allow, judged by pydantic and refused in one line.

`Annotated[int, AtLeast(1)]` says that a value is a whole number of at least 1; `Literal` lists
names. `checked` has the values judged wherever such a function is called, be it from Python or from
a config. Text becomes the number that it spells, and a mapping a dataclass. Numbers never become
text: `1e3` would be "1000.0", and YAML's `no` "False".
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

from annotated_types import Interval, MinLen, Predicate
from pydantic import BeforeValidator, ConfigDict, TypeAdapter

from outrider.base.calling import hints_of
from outrider.base.errors import ConfigError, is_int, nearest, require, shown
from outrider.base.expectations import (
    WORDS,
    Above,
    AtLeast,
    Like,
    OneOf,
    Passes,
    Within,
    expected,
    options_of,
)
from outrider.base.folders import can_be_written

Function = TypeVar("Function", bound=Callable[..., Any])

Count = Annotated[int, AtLeast(1)]
"""How many of something; there is at least one."""

Whole = Annotated[int, Within("[0, 2147483647]")]
"""How many of something, or the number of one, as a file may say it."""

DraftLength = Annotated[int, Within("[1, 4096]")]
"""The most draft tokens one after another."""

Budget = Annotated[int, Within("[1, 65536]")]
"""The most draft tokens in a tree."""

Finite = Annotated[float, Interval(ge=-1e12, le=1e12)]
"""A number that a file may hold, of seconds or of a sum."""

Name = Annotated[str, Like(r"(?=.*\S)[^\ud800-\udfff]{1,200}", "text of at most 200 characters")]
"""What something is called, in tables and plots."""

Share = Annotated[float, Within("[0, 1]")]
NonNegative = Annotated[float, AtLeast(0)]
Seconds = Annotated[float, Above(0)]
Seed = Annotated[int, Within("[0, 18446744073709551615]")]
"""What random decisions follow from."""

ExistingFile = Annotated[
    str, Passes(lambda path: Path(path).expanduser().is_file(), "a file that exists")
]
"""A path to a file; `~` is the user's home."""

NewFolder = Annotated[
    str,
    Passes(
        lambda path: (
            can_be_written(path)
            and (path.endswith(".safetensors") or not Path(path).expanduser().is_file())
        ),
        "a folder that can be written to, on a disk with room",
    ),
]
"""A path that is written to, which is found out before what takes long; there may be a file of
weights in its place."""

PLAIN = (str, int, float)
"""Values that are converted; whatever else is handed over stays the object that it is."""

CONFIG = ConfigDict(allow_inf_nan=False)

_signature = cache(inspect.signature)

SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def checked(prefix: str = "") -> Callable[[Function], Function]:
    """Returns a decorator: a function or class raises `ConfigError` for values out of bounds.

    prefix: what the parameters are settings of, such as "policy" for `policy.alpha`.
    """

    def decorate(made: Function) -> Function:
        if inspect.isclass(made):
            made.__init__ = decorate(made.__init__)  # type: ignore[method-assign]
            return made
        parameters = inspect.signature(made).parameters.values()
        places = [it.name for it in parameters if it.kind not in SEVERAL]

        @wraps(made)
        def call(*arguments: Any, **named: Any) -> Any:
            placed = dict(zip(places, arguments, strict=False))  # without those of `*args`
            judged = arguments_of(made, placed, prefix).values()
            return made(*judged, *arguments[len(placed) :], **arguments_of(made, named, prefix))

        return cast("Function", call)

    return decorate


def arguments_of(
    function: Callable[..., Any], given: Mapping[str, Any], prefix: str = "", *, whole: bool = False
) -> dict[str, Any]:
    """Returns arguments of a function or class, by name, as its annotations have them.

    whole: whether they are all that it is given.

    Raises `ConfigError` for one that it does not take or lacks, or whose value is out of bounds.
    """
    parameters = _signature(function).parameters.values()
    for it in parameters if whole else ():
        if it.default is it.empty and it.kind not in SEVERAL and it.name not in given:
            raise ConfigError(f"{_field(prefix, it.name)}: expected a value")
    known, hints = _named(function)
    unknown = [name for name in given if name not in known]
    if unknown and all(it.kind is not it.VAR_KEYWORD for it in parameters):
        hint = nearest(str(unknown[0]), (name for name in known if name != "self"))
        raise ConfigError(f"{_field(prefix, unknown[0])}: {hint}")
    return values_of(hints, given, prefix)


@cache
def _named(function: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """Returns the names of parameters, but for those of `*args`, and the annotations of these."""
    parameters = _signature(function).parameters.values()
    known = [it.name for it in parameters if it.kind not in SEVERAL]
    return known, {name: hint for name, hint in hints_of(function).items() if name in known}


def values_of(
    hints: Mapping[str, Any], values: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
    """Returns values as their annotations have them; raises `ConfigError` as `check` does."""
    return {
        name: _value_of(hints[name], value, _field(prefix, name)) if name in hints else value
        for name, value in values.items()
    }


def check(hints: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Raises `ConfigError` for the first value that its annotation does not allow as it is."""
    for name, value in values.items():
        _judged(hints[name], value, name, strict=True)


def _field(prefix: str, name: object) -> str:
    return f"{prefix}.{name}" if prefix else str(name)


def _value_of(hint: Any, value: Any, field: str) -> Any:
    made, takes_mappings = _containers(hint)
    if isinstance(value, str) and hasattr(made, "SPELLED"):
        found = re.fullmatch(made.SPELLED, value.strip())
        require(found is not None, field, value, made.EXPECTED)
        value = found.groupdict() if found else {}
    if made is not None and isinstance(value, Mapping) and not takes_mappings:
        return made(**arguments_of(made, value, field, whole=True))
    is_plain = isinstance(value, PLAIN) and not isinstance(value, bool)
    judged = _judged(hint, value, field, strict=not is_plain)
    return judged if is_plain else value


@cache
def _containers(hint: Any) -> tuple[Any, bool]:
    """Returns the dataclass that an annotation allows, or None, and whether it allows mappings."""
    kinds = [kind for kind, _ in options_of(hint)]
    made = next((kind for kind in kinds if is_dataclass(kind)), None)
    return made, any(get_origin(kind) is Mapping for kind in kinds)


def _judged(hint: Any, value: Any, field: str, *, strict: bool) -> Any:
    judge = _judge(hint)
    try:
        return judge.validate_python(value, strict=strict)
    except Exception:  # noqa: BLE001  whatever an object's own methods raise
        line = f"{field}={shown(value)}: expected {expected(hint, value)}"
        raise ConfigError(line) from None


@cache
def _judge(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_pydantic_type(hint), config=CONFIG)


def _pydantic_type(hint: Any) -> Any:
    """Returns an annotation for pydantic: any value is of a type that `WORDS` does not list."""
    options = (_pydantic_option(kind, bounds) for kind, bounds in options_of(hint))
    return typing.Union[tuple(options)]  # noqa: UP007  made at run time


def _pydantic_option(kind: Any, bounds: tuple[Any, ...]) -> Any:
    origin, judged = get_origin(kind) or kind, kind if kind in WORDS else Any
    if kind is Literal:
        return Literal[bounds]
    if kind in (int, float):
        # A whole number of numpy becomes one of Python.
        judged = Annotated[kind, BeforeValidator(lambda it: int(it) if is_int(it) else it)]
    elif origin in (dict, Mapping):
        judged = Annotated[Any, Predicate(lambda value: isinstance(value, Mapping))]
    elif origin in (list, Sequence):
        item = _pydantic_type(*get_args(kind) or (Any,))
        is_list = Predicate(lambda value: not isinstance(value, str))
        judged = Annotated[Sequence[item], is_list]  # type: ignore[valid-type]
        lengths = ((it, getattr(it, "ge", None)) for it in bounds)
        bounds = tuple(it if least is None else MinLen(least) for it, least in lengths)
    listed = (Predicate(it.names.__contains__) if isinstance(it, OneOf) else it for it in bounds)
    return Annotated[(judged, *listed)] if bounds else judged
