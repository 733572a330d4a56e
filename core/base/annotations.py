"""The annotations of a function or class, as the types that they name."""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin


def hints_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Returns the annotations of a function's or class's parameters, and of what is returned.

    One that can't be resolved counts as none, such as a string with the name of a type that is
    imported for type checkers alone.
    """
    annotated: Any = function.__init__ if inspect.isclass(function) else function
    return _hints(inspect.unwrap(annotated))


@cache
def _hints(function: Any) -> Mapping[str, Any]:
    found = {}
    known = getattr(function, "__globals__", {})
    for name, hint in getattr(function, "__annotations__", {}).items():
        try:
            found[name] = eval(hint, known) if isinstance(hint, str) else hint
        except Exception:  # noqa: BLE001  whatever an expression of a plugin can raise
            found[name] = Any
    return found


def plain_type(hint: Any) -> Any:
    """Returns an annotation without its bounds."""
    if get_origin(hint) is Annotated:
        return plain_type(hint.__origin__)
    if get_origin(hint) is Literal:
        return type(get_args(hint)[0])
    if get_origin(hint) in (typing.Union, types.UnionType):
        return typing.Union[tuple(map(plain_type, get_args(hint)))]  # noqa: UP007  made at run time
    return hint
