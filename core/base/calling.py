"""The one way to call a part: what it takes, and one line that names it for what goes wrong."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Self, TypeVar, final

from outrider.base.errors import (
    DrafterError,
    OutriderError,
    PluginError,
    ProcessEnded,
    TargetError,
    described,
    is_fault,
    place,
)
from outrider.base.interruption import out_of_memory

Answer = TypeVar("Answer")

ERRORS: Any = {"drafter": DrafterError, "target": TargetError, "tokenizer": TargetError}
"""By role, what its errors are raised as; those of other roles are a `PluginError`."""


class Unusable(OutriderError):
    """What a part has handed back can't be used; raised while it is called."""


@final
class calling:
    """A context manager around a call of a part, whose errors it names.

    What the part raises, and an `Unusable` answer, become one line with the role, the part's class,
    what is wrong, and the innermost file and line of the part's own package. Where its code was not
    reached, as with a wrong signature, that is the line of its class. These stay as they are: an
    `OutriderError`, which names what is wrong itself; Ctrl-C; and an error of memory that is full.

    part: an instance, or the class or function that makes one.
    raises: the class of the error. Defaults to that of the role.
    """

    __slots__ = ("_part", "_raises", "_role")

    def __init__(self, role: str, part: Any, raises: type[OutriderError] | None = None) -> None:
        self._role, self._part, self._raises = role, part, raises

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            named = error_of(self._role, self._part, error, self._raises)
            if named is not None:
                raise named from error


def error_of(
    role: str, part: Any, error: BaseException, raises: type[OutriderError] | None = None
) -> OutriderError | None:
    """Returns what `calling` raises in place of an error; None if the error stays as it is."""
    words = _words(role, error)
    if words is None:
        return None
    maker = part if hasattr(part, "__qualname__") else type(part)
    name = f"{role} {maker.__name__}"
    where = place(error, maker.__module__) or _definition(maker)
    named = (raises or ERRORS.get(role, PluginError))(f"{name} {words}{where}")
    named.part = name
    return named


def _words(role: str, error: BaseException) -> str | None:
    """Returns what is wrong with a part; None if it is not the part that is to be named."""
    if isinstance(error, OutriderError):
        is_drafters = role == "drafter" and isinstance(error, DrafterError) and error.part is None
        return str(error) if is_drafters or isinstance(error, Unusable) else None
    if isinstance(error, ProcessEnded) or not is_fault(error) or out_of_memory(error):
        return None
    return f"raised {described(error)}"


def _definition(maker: Any) -> str:
    """Returns where a class or function is written, " (file:line)"; "" if nobody knows."""
    try:
        return f" ({inspect.getsourcefile(maker)}:{inspect.findsource(maker)[1] + 1})"
    except (OSError, TypeError):
        return ""


def returned(answer: Answer, kind: type[Any]) -> Answer:
    """Returns a part's answer; raises `Unusable` unless it is of a class."""
    if not isinstance(answer, kind):
        raise Unusable(f"returned {type(answer).__name__}, expected {kind.__name__}")
    return answer


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
