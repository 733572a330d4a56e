"""Whether an object can stand in a role: its class, and what its methods can be called with."""

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType
from typing import Any

from outrider.base.errors import ConfigError, require, shown


def require_instance(field: str, value: object, role: type) -> None:
    """Raises `ConfigError` unless a part is an instance of its role, and its methods fit."""
    require(isinstance(value, role), field, value, f"an instance of {role.__name__}")
    require_methods(field, value, role)


def require_methods(field: str, part: object, role: type) -> None:
    """Raises `ConfigError` unless the methods of a part can be called as those of its role.

    field: what the part is called in the message.
    """
    if fault := misfit(type(part), role):
        raise ConfigError(f"{field} {type(part).__name__} {fault}")


def misfit(own: type, role: type) -> str | None:
    """Returns which method of a class can't be called as that of its role; None if all can."""
    return _misfit_in(own, role)


@cache  # whose arguments have to be `Any`: to type checkers a class is not hashable
def _misfit_in(own: Any, role: Any) -> str | None:
    for kind in role.__mro__:
        for name, method in vars(kind).items():
            if isinstance(method, FunctionType) and not name.startswith("_"):
                fault = _misfit(name, inspect.getattr_static(own, name, method), method)
                if fault is not None:
                    return fault
    return None


def _misfit(name: str, own: Any, method: FunctionType) -> str | None:
    if own is method:
        return None
    positional = [
        parameter
        for parameter in inspect.signature(method).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    expected = f"expected {name}{_names(positional)}"
    function = own.__func__ if isinstance(own, staticmethod | classmethod) else own
    is_bound = isinstance(own, staticmethod) or not hasattr(function, "__get__")
    if not callable(function):
        is_made_later = hasattr(function, "__get__")  # by a property, say
        return None if is_made_later else f"has {name}={shown(own)}: {expected}"
    try:
        taken = inspect.signature(function)
    except (TypeError, ValueError, NameError):  # of compiled code, or an annotation is not there
        return None
    try:
        taken.bind(*positional[is_bound:])
    except TypeError:
        return f"has {name}{_names(taken.parameters.values())}{_place(function)}: {expected}"
    return None


def _names(parameters: Iterable[inspect.Parameter]) -> str:
    """Returns parameters as they are written in Python, without annotations and values."""
    bare = [it.replace(annotation=it.empty, default=it.empty) for it in parameters]
    return str(inspect.Signature(bare))


def _place(function: Callable[..., Any]) -> str:
    """Returns where a function is written, " (file:line)"; "" if it is no function of Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
