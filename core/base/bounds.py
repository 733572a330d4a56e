"""Settings: what their annotations allow, judged by pydantic and refused in one line.

`Annotated[int, AtLeast(1)]` says that a value is a whole number of at least 1; `Literal` lists
names. `checked` has the values judged wherever such a function is called, be it from Python or from
a config. Text becomes the number that it spells, and a mapping a dataclass. Numbers never become
text: `1e3` would be "1000.0", and YAML's `no` "False".
"""

import inspect
import re
import types
import typing
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, wraps
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, TypeVar, cast, final, get_args, get_origin

from annotated_types import Ge, Gt, Interval, MinLen, Predicate
from pydantic import BeforeValidator, ConfigDict, TypeAdapter

from outrider.base.calling import hints_of
from outrider.base.errors import ConfigError, is_int, is_number, nearest, shown, similar
from outrider.base.folders import can_be_written

Function = TypeVar("Function", bound=Callable[..., Any])

AtLeast, Above = Ge, Gt
"""The least number, or the least length of a list; and a number below all that are allowed."""


def Within(interval: str) -> Interval:
    """An interval as mathematics writes it: `Within("(0, 1]")` leaves out 0 and includes 1."""
    low, high = map(int, interval[1:-1].split(","))
    above = Interval(ge=low) if interval[0] == "[" else Interval(gt=low)
    return replace(above, le=high) if interval[-1] == "]" else replace(above, lt=high)


@final
@dataclass(frozen=True, slots=True)
class Passes(Predicate):
    """A test of a value, and what passes it, in words."""

    words: str

    def __str__(self) -> str:
        return self.words


def Like(pattern: str, words: str) -> Passes:
    """Text that matches a regular expression as a whole, and what such text is in words."""
    return Passes(lambda value: re.fullmatch(pattern, value, re.DOTALL) is not None, words)


@final
@dataclass(frozen=True, slots=True, eq=False)
class OneOf:
    """A name among some that are listed elsewhere; `Literal` lists them in the annotation.

    listed: the names, or the place of them or of a function that returns them, "module:name",
        which is imported on first use.
    """

    listed: Iterable[str] | str

    @property
    def names(self) -> tuple[str, ...]:
        names = resolve_name(self.listed) if isinstance(self.listed, str) else self.listed
        return tuple(names() if callable(names) else names)

    def __str__(self) -> str:
        return f"one of {', '.join(self.names)}"


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
"""A probability or a part of a whole."""

Seconds = Annotated[float, Above(0)]
"""A length of time, in seconds."""

Seed = Annotated[int, Within("[0, 18446744073709551615]")]
"""What random decisions follow from."""

NonNegative = Annotated[float, AtLeast(0)]
"""A number that is 0 or more."""

ExistingFile = Annotated[
    str, Passes(lambda path: Path(path).expanduser().is_file(), "a file that exists")
]
"""A path to a file; `~` is the user's home."""

NewFile = Annotated[str, Passes(can_be_written, "a file that can be written, on a disk with room")]
"""A path that is written to, which is found out before what takes long."""

NewFolder = Annotated[
    str,
    Passes(
        lambda path: can_be_written(path) and not _is_other(path),
        "a folder that can be written to, on a disk with room",
    ),
]
"""Likewise; there may be a file of weights in its place."""

WORDS = {
    int: "a whole number", float: "a number", bool: "true or false", str: "text",
    type(None): "null", dict: "a mapping", Mapping: "a mapping", list: "a list", Sequence: "a list",
}  # fmt: skip
"""What values of a type are called. Values of other types are not judged."""

LIMITS = {"ge": "of at least {}", "min_length": "of at least {}", "gt": "above {}"}

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

        call.is_checked = True  # type: ignore[attr-defined]
        return cast("Function", call)

    return decorate


def is_checked(factory: Callable[..., Any]) -> bool:
    """Returns whether a function or class judges its arguments itself."""
    made: Any = factory.__init__ if inspect.isclass(factory) else factory
    return getattr(made, "is_checked", False)


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
    known = [it.name for it in parameters if it.kind not in SEVERAL]
    unknown = [name for name in given if name not in known]
    if unknown and all(it.kind is not it.VAR_KEYWORD for it in parameters):
        hint = nearest(str(unknown[0]), (name for name in known if name != "self"))
        raise ConfigError(f"{_field(prefix, unknown[0])}: {hint}")
    hints = hints_of(function)
    return values_of({name: hint for name, hint in hints.items() if name in known}, given, prefix)


def values_of(
    hints: Mapping[str, Any], values: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
    """Returns values as their annotations have them; raises `ConfigError` as `check` does."""
    return {
        name: _value_of(hints[name], value, _field(prefix, name)) if name in hints else value
        for name, value in values.items()
    }


def check(hints: Mapping[str, Any], values: Mapping[str, Any], prefix: str = "") -> None:
    """Raises `ConfigError` for the first value that its annotation does not allow as it is."""
    for name, value in values.items():
        _judged(hints[name], value, _field(prefix, name), strict=True)


def _is_other(path: str) -> bool:
    return Path(path).expanduser().is_file() and not path.endswith(".safetensors")


def _field(prefix: str, name: object) -> str:
    return f"{prefix}.{name}" if prefix else str(name)


def _value_of(hint: Any, value: Any, field: str) -> Any:
    kinds = [kind for kind, _ in _options(hint)]
    made: Any = next((kind for kind in kinds if is_dataclass(kind)), None)
    takes_mappings = any(get_origin(kind) is Mapping for kind in kinds)
    if made is not None and isinstance(value, Mapping) and not takes_mappings:
        return made(**arguments_of(made, value, field, whole=True))
    is_plain = isinstance(value, PLAIN) and not isinstance(value, bool)
    judged = _judged(hint, value, field, strict=not is_plain)
    return judged if is_plain else value


def _judged(hint: Any, value: Any, field: str, *, strict: bool) -> Any:
    judge = _judge(hint)
    try:
        return judge.validate_python(value, strict=strict)
    except Exception:  # noqa: BLE001  whatever an object's own methods raise
        line = f"{field}={shown(value)}: expected {expected(hint, value)}"
        raise ConfigError(line + _quotes(hint, value, field)) from None


def _quotes(hint: Any, value: Any, field: str) -> str:
    """Returns how a text is written that was read as another value, such as YAML's `no`."""
    items = value if isinstance(value, list | tuple) else [value]
    others = [it for it in items if isinstance(it, int | float | None)]
    if not others or not _takes_text(hint):
        return ""
    example = '"1e3"' if str in (kind for kind, _ in _options(hint)) else '["1e3"]'
    return f"; {others[0]} was no text: quotes keep it, as in '{field}={example}'"


def _takes_text(hint: Any) -> bool:
    """Returns whether a value, or an item of a list, may be text."""
    kinds = [kind for kind, _ in _options(hint)]
    lists = (kind for kind in kinds if get_origin(kind) in (list, Sequence))
    return str in kinds or any(_takes_text(item) for kind in lists for item in get_args(kind))


def expected(hint: Any, value: object = None) -> str:
    """Returns in words what an annotation allows, with the names that are like `value`.

    >>> expected(Annotated[int, AtLeast(1)] | None)
    'a whole number of at least 1, or null'
    >>> expected(Literal["plain", "scaled"], "scald")
    "one of plain, scaled; did you mean 'scaled'?"
    """
    words = [_words(kind, bounds) for kind, bounds in _options(hint)]
    return ", or ".join(words) + similar(value if isinstance(value, str) else "", _names(hint))


def _names(hint: Any) -> list[str]:
    """Returns the names that an annotation lists."""
    names = []
    for kind, bounds in _options(hint):
        names += [str(name) for name in bounds if kind is Literal]
        names += chain.from_iterable(it.names for it in bounds if isinstance(it, OneOf))
    return names


def is_free_text(hint: Any, value: object, names: Container[str]) -> bool:
    """Returns whether a value is text, or becomes it, that its annotation doesn't list.

    names: what text may be where the annotation doesn't ask for any.
    """
    takes_text = any(kind is str for kind, _ in _options(hint))
    if isinstance(value, str):
        return value not in _names(hint) and (takes_text or value not in names)
    return takes_text and is_number(value)


def _words(kind: Any, bounds: Sequence[Any]) -> str:
    """Returns in words what is allowed of one type."""
    if kind is Literal:
        return f"one of {', '.join(map(str, bounds))}" if bounds[1:] else str(bounds[0])
    said = [_bound_words(bound) for bound in bounds]
    name = WORDS.get(get_origin(kind) or kind, str(getattr(kind, "__name__", kind)))
    line = " ".join(said if kind is str and said else [name, *said])
    items = get_args(kind) if get_origin(kind) in (list, Sequence) else (Any,)
    return line if items[0] is Any else f"{line}, each {expected(items[0])}"


def _bound_words(bound: Any) -> str:
    if isinstance(bound, Interval):
        start = f"({bound.gt}" if bound.ge is None else f"[{bound.ge}"
        return f"in {start}, {bound.lt})" if bound.le is None else f"in {start}, {bound.le}]"
    limits = ((words, getattr(bound, name, None)) for name, words in LIMITS.items())
    return next((words.format(it) for words, it in limits if it is not None), str(bound))


def _options(hint: Any, bounds: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yields the types that a value may be of, each with its bounds; for `Literal`, its names."""
    origin = get_origin(hint)
    if origin is Annotated:
        yield from _options(hint.__origin__, (*hint.__metadata__, *bounds))
    elif origin in (typing.Union, types.UnionType):
        for option in get_args(hint):
            yield from _options(option, bounds)
    elif origin is Literal:
        yield Literal, get_args(hint)
    else:
        yield hint, () if hint in (type(None), bool) else bounds


@cache
def _judge(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_pydantic_type(hint), config=CONFIG)


def _pydantic_type(hint: Any) -> Any:
    """Returns an annotation for pydantic: any value is of a type that `WORDS` does not list."""
    options = (_pydantic_option(kind, bounds) for kind, bounds in _options(hint))
    return typing.Union[tuple(options)]  # noqa: UP007  made at run time


def _pydantic_option(kind: Any, bounds: tuple[Any, ...]) -> Any:
    origin, judged = get_origin(kind) or kind, kind if kind in WORDS else Any
    if kind is Literal:
        return Literal[bounds]
    if kind in (int, float):
        judged = Annotated[kind, BeforeValidator(_number)]
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


def _number(value: Any) -> Any:
    """Returns a whole number of numpy as one of Python."""
    return int(value) if is_int(value) else value
