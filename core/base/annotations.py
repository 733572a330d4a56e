"""The annotations of a function or class, as the types that they name."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


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
