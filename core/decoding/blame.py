"""Which part of a run an error comes from, told from its traceback."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from outrider.base.errors import (
    USERS,
    DrafterError,
    OutriderError,
    PluginError,
    RankEnded,
    TargetError,
    described,
    is_fault,
    user_code,
)
from outrider.base.interruption import out_of_memory
from outrider.contract.chance import Chance
from outrider.contract.constraint import Constraint
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.target import Session, Target
from outrider.contract.verifier import Verifier

PARTS: Mapping[str, type[Any] | tuple[type[Any], ...]] = {
    "constraint": Constraint,
    "policy": Policy,
    "verifier": Verifier,
    "drafter": Drafter,
    "target": (Target, Session),
    "chance": Chance,
}
"""By role, the classes whose methods the loop calls."""

CODE = "code"
"""Stands for a role in messages about a user's code that is no part's."""

ERRORS = {"drafter": DrafterError, "target": TargetError}
"""By role, what its errors are raised as; those of other roles are a `PluginError`."""


def culprit(
    error: BaseException, parts: Mapping[str, type[Any] | tuple[type[Any], ...]] = PARTS
) -> tuple[str, str] | None:
    """Returns the role of the part whose code raised an error, and its class; None if none did.

    That is the innermost part among the callers of the innermost user's code, or of Outrider's own:
    a policy that a drafter asks is named, and not the drafter; a drafter that calls a target
    wrongly is named, and not the target. A user's code that is no part's is named as `CODE`.
    """
    found, handed, at_fault, at_work, best = None, None, None, None, 0
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code, closeness = frame.f_code, user_code(frame)
        is_users = closeness >= USERS
        names = code.co_varnames[: code.co_argcount]
        part = frame.f_locals.get(names[0]) if names else None
        if role := next((role for role, kind in parts.items() if isinstance(part, kind)), None):
            handed = role, path_of(type(part))
            # A function of Outrider that is handed a part is none of its methods.
            found = handed if is_users or hasattr(type(part), code.co_name) else found
        if closeness >= min(best, USERS):
            at_fault = found
        if closeness >= best:
            best, place = closeness, f"{frame.f_globals.get('__name__')}.{code.co_qualname}"
            at_work = (CODE, place) if is_users else None
    if at_fault or at_work or error.__cause__ is None:
        return at_fault or at_work or handed
    return culprit(error.__cause__, parts) or handed  # as of what a generator raised


def path_of(part: type[Any]) -> str:
    """Returns where a class is, as "module.name"."""
    return f"{part.__module__}.{part.__qualname__}"


def told(role: str, path: str, error: BaseException) -> str:
    """Returns an error of a part as one line that names the part and the place."""
    package, name = path.partition(".")[0], path if role == CODE else path.rpartition(".")[2]
    return f"{role} {name} raised {described(error, package)}"


@contextmanager
def named_errors(drafter: Drafter | None = None) -> Iterator[None]:
    """Raises whatever a part's code raises as one line that names the part and the place.

    An error of no part, and one of memory that is full, stays as it is.

    drafter: the one at work, which is named if no other part's code raised the error.
    """
    try:
        yield
    except DrafterError as error:
        if drafter is None:
            raise
        raise DrafterError(f"drafter {type(drafter).__name__} {error}") from error
    except (OutriderError, RankEnded):
        raise
    except BaseException as error:
        if not is_fault(error):
            raise
        found = culprit(error) or (None if drafter is None else ("drafter", path_of(type(drafter))))
        if found is None or out_of_memory(error):
            raise
        raise ERRORS.get(found[0], PluginError)(told(*found, error)) from error
