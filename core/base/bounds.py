"""The values that a setting may have, declared in its annotation and checked in one place.

`Annotated[int, AtLeast(1)]` says that a value is a whole number of at least 1; `Literal` lists
names. `checked` has the values looked at wherever such a function is called, be it from Python or
from a config.
"""

import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, TypeVar, cast, final, get_args, get_origin

from outrider.base.annotations import hints_of
from outrider.base.errors import ConfigError, is_int, is_number, nearest, shown, similar

Function = TypeVar("Function", bound=Callable[..., Any])
Test = Callable[[Any], bool]


@final
@dataclass(frozen=True, slots=True)
class Within:
    """An interval as mathematics writes it: `Within("(0, 1]")` leaves out 0 and includes 1."""

    interval: str

    def __contains__(self, value: float) -> bool:
        low, high = _limits(self.interval)
        above = value >= low if self.interval[0] == "[" else value > low
        return above and (value <= high if self.interval[-1] == "]" else value < high)

    def __str__(self) -> str:
        return f"in {self.interval}"


@lru_cache
def _limits(interval: str) -> tuple[int | Fraction, int | Fraction]:
    """Returns them exactly: floats can't tell 2**64 from 2**64 - 1."""
    low, high = map(Fraction, interval[1:-1].split(","))
    return (
        low.numerator if low.denominator == 1 else low,  # whole numbers compare faster
        high.numerator if high.denominator == 1 else high,
    )


@final
@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number, or a list of so many items, or more."""

    least: float

    def __contains__(self, value: Any) -> bool:
        return bool((len(value) if isinstance(value, Sequence) else value) >= self.least)

    def __str__(self) -> str:
        return f"of at least {self.least:g}"


@final
@dataclass(frozen=True, slots=True)
class Above:
    """Larger than a number."""

    limit: float

    def __contains__(self, value: float) -> bool:
        return value > self.limit

    def __str__(self) -> str:
        return f"above {self.limit:g}"


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

    def __contains__(self, value: object) -> bool:
        return value in self.names

    def __str__(self) -> str:
        return f"one of {', '.join(self.names)}"


@final
@dataclass(frozen=True, slots=True)
class Like:
    """Text that matches a regular expression as a whole, and what such text is in words."""

    pattern: str
    words: str

    def __contains__(self, value: str) -> bool:
        return re.fullmatch(self.pattern, value, re.DOTALL) is not None

    def __str__(self) -> str:
        return self.words


@final
@dataclass(frozen=True, slots=True)
class ExistingFile:
    """A path to a file; `~` is the user's home."""

    def __contains__(self, value: str) -> bool:
        return Path(value).expanduser().is_file()

    def __str__(self) -> str:
        return "a file that exists"


Count = Annotated[int, AtLeast(1)]
"""How many of something; there is at least one."""

Share = Annotated[float, Within("[0, 1]")]
"""A probability or a part of a whole."""

Seconds = Annotated[float, Above(0)]
"""A length of time, in seconds."""

NonNegative = Annotated[float, AtLeast(0)]
"""A number that is 0 or more."""

NULL = "null"

KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (is_int, "a whole number"),
    float: (lambda value: is_number(value) and math.isfinite(value), "a number"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    str: (lambda value: isinstance(value, str), "text"),
    type(None): (lambda value: value is None, NULL),
    dict: (lambda value: isinstance(value, Mapping), "a mapping"),
    Mapping: (lambda value: isinstance(value, Mapping), "a mapping"),
}
"""By type, whether a value is of it, and how it is called. Other types are not checked."""

LISTS = (list, Sequence)
PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def checked(prefix: str = "") -> Callable[[Function], Function]:
    """Returns a decorator: a function or class raises `ConfigError` for values out of bounds.

    prefix: what the parameters are settings of, such as "policy" for `policy.alpha`.
    """

    def decorate(made: Function) -> Function:
        if inspect.isclass(made):
            made.__init__ = decorate(made.__init__)  # type: ignore[method-assign]
            return made
        parameters = inspect.signature(made).parameters.values()
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        is_closed = inspect.Parameter.VAR_KEYWORD not in {p.kind for p in parameters}
        single = {p.name for p in parameters if p.kind not in several}
        places = [p.name for p in parameters if p.kind in PLACED]

        @cache
        def tests() -> Mapping[str, Test]:
            return {name: _test(h) for name, h in hints_of(made).items() if name in single}

        @wraps(made)
        def call(*arguments: Any, **named: Any) -> Any:
            if is_closed and (unknown := next((n for n in named if n not in single), None)):
                known = nearest(unknown, single - {"self"})
                raise ConfigError(f"{prefix and f'{prefix}.'}{unknown}: {known}")
            of_name = tests()
            for name, value in (*zip(places, arguments, strict=False), *named.items()):
                if name in of_name and not _fits(of_name[name], value):
                    raise _refusal(prefix, name, hints_of(made)[name], value)
            return made(*arguments, **named)

        return cast("Function", call)

    return decorate


def check(hints: Mapping[str, Any], values: Mapping[str, Any], prefix: str = "") -> None:
    """Raises `ConfigError` for the first value that its annotation does not allow."""
    for name, value in values.items():
        hint = hints.get(name, Any)
        if not _fits(_test(hint), value):
            raise _refusal(prefix, name, hint, value)


def _fits(test: Test, value: Any) -> bool:
    """Returns whether a value passes a test; one that can't be compared or listed does not."""
    try:
        return test(value)
    except Exception:  # noqa: BLE001  whatever an object's own methods raise
        return False


def _refusal(prefix: str, name: str, hint: Any, value: Any) -> ConfigError:
    field = f"{prefix}.{name}" if prefix else name
    return ConfigError(f"{field}={shown(value)}: expected {expected(hint, value)}")


def expected(hint: Any, value: object = None) -> str:
    """Returns in words what an annotation allows, with the names that are like `value`.

    >>> expected(Annotated[int, AtLeast(1)] | None)
    'a whole number of at least 1, or null'
    >>> expected(Literal["plain", "scaled"], "scald")
    "one of plain, scaled; did you mean 'scaled'?"
    """
    options = list(_options(hint))
    words = [_words(kind, bounds) for kind, bounds in options if kind is not Literal]
    names = [str(name) for kind, bounds in options if kind is Literal for name in bounds]
    choices = [bound for _, bounds in options for bound in bounds if isinstance(bound, OneOf)]
    known = [*names, *(name for choice in choices for name in choice.names)]
    listed = [f"one of {', '.join(names)}"] if names[1:] else names
    is_list = [words[0], *listed, *words[1:]] if words and words[0] != NULL else [*listed, *words]
    return ", or ".join(is_list) + similar(value if isinstance(value, str) else "", known)


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


def _test(hint: Any) -> Test:
    """Returns the function that says whether an annotation allows a value."""
    tests = [_test_of(kind, bounds) for kind, bounds in _options(hint)]
    return tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)


def _list_of(hint: Any) -> Test:
    is_item = _test(hint)

    def is_list(value: Any) -> bool:
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(is_item(item) for item in value)
        )

    return is_list


def _test_of(kind: Any, bounds: tuple[Any, ...]) -> Test:
    """Returns the function that says whether a value is of a type and within its bounds."""
    if kind is Literal:
        return lambda value: isinstance(value, str | bool | int) and value in bounds
    origin = get_origin(kind)
    if origin in LISTS:
        is_kind = _list_of(get_args(kind)[0])
    else:
        is_kind, _ = KINDS.get(origin or kind, (lambda _: True, ""))
    return lambda value: is_kind(value) and all(value in bound for bound in bounds)


def _words(kind: Any, bounds: tuple[Any, ...]) -> str:
    if get_origin(kind) in LISTS:
        item = get_args(kind)[0]
        name = " ".join(["a list", *map(str, bounds)])
        return name if item is Any else f"{name}, each {expected(item)}"
    name = KINDS.get(get_origin(kind) or kind, (None, getattr(kind, "__name__", str(kind))))[1]
    if kind is str and bounds:
        return " ".join(map(str, bounds))
    return " ".join([name, *map(str, bounds)])
