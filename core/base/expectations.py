"""What annotations allow, in words: an interval, a pattern, names."""

import re
import types
import typing
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, final, get_args, get_origin

from annotated_types import Ge, Gt, Interval, Predicate

from outrider.base.errors import is_number, similar

AtLeast = Ge
Above = Gt
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


WORDS: dict[Any, str] = {
    int: "a whole number", float: "a number", bool: "true or false", str: "text",
    type(None): "null", dict: "a mapping", Mapping: "a mapping", list: "a list", Sequence: "a list",
}  # fmt: skip
"""What values of a type are called. Values of other types are not judged."""

LIMITS = {"ge": "of at least {}", "min_length": "of at least {}", "gt": "above {}"}


def expected(hint: Any, value: object = None) -> str:
    """Returns in words what an annotation allows, with the names that are like `value`.

    >>> expected(Annotated[int, AtLeast(1)] | None)
    'a whole number of at least 1, or null'
    >>> expected(Literal["plain", "scaled"], "scald")
    "one of plain, scaled; did you mean 'scaled'?"
    """
    words = [_words(kind, bounds) for kind, bounds in options_of(hint)]
    return ", or ".join(words) + similar(value if isinstance(value, str) else "", _names(hint))


def _names(hint: Any) -> list[str]:
    """Returns the names that an annotation lists."""
    names = []
    for kind, bounds in options_of(hint):
        names += [str(name) for name in bounds if kind is Literal]
        names += chain.from_iterable(it.names for it in bounds if isinstance(it, OneOf))
    return names


def is_free_text(hint: Any, value: object, names: Container[str]) -> bool:
    """Returns whether a value is text, or becomes it, that its annotation doesn't list.

    names: what text may be where the annotation doesn't ask for any.
    """
    takes_text = any(kind is str for kind, _ in options_of(hint))
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


def options_of(hint: Any, bounds: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yields the types that a value may be of, each with its bounds; for `Literal`, its names."""
    origin = get_origin(hint)
    if origin is Annotated:
        yield from options_of(hint.__origin__, (*hint.__metadata__, *bounds))
    elif origin in (typing.Union, types.UnionType):
        for option in get_args(hint):
            yield from options_of(option, bounds)
    elif origin is Literal:
        yield Literal, get_args(hint)
    else:
        yield hint, () if hint in (type(None), bool) else bounds
