"""Which part of a run an error comes from, told from its traceback."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import dropwhile
from types import FrameType
from typing import Any

from outrider.base.errors import (
    USERS,
    DrafterError,
    OutriderError,
    PluginError,
    ProcessEnded,
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

Kinds = Mapping[str, type[Any] | tuple[type[Any], ...]]

PARTS: Kinds = {
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


def culprit(error: BaseException, parts: Kinds = PARTS) -> tuple[str, str] | None:
    """Returns the role of the part whose code raised an error, and its class; None if none did.

    That is the innermost part among the callers of the innermost user's code, or of Outrider's own:
    a policy that a drafter asks is named, and not the drafter; a drafter that calls a target
    wrongly is named, and not the target. A user's code that is no part's is named as `CODE`.
    """
    outward = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]
    closest = max(map(user_code, outward), default=0)
    callers = dropwhile(lambda frame: user_code(frame) < min(closest, USERS), outward)
    if at_fault := next(filter(None, (_at_work(frame, parts) for frame in callers)), None):
        return at_fault
    if closest >= USERS:
        frame = next(frame for frame in outward if user_code(frame) == closest)
        return CODE, f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"
    # What a generator raised is the cause; a part that was only handed over is the last resort.
    below = None if error.__cause__ is None else culprit(error.__cause__, parts)
    return below or next(filter(None, (_handed(frame, parts) for frame in outward)), None)


def _handed(frame: FrameType, parts: Kinds) -> tuple[str, str] | None:
    """Returns the role and the class of the part that a function takes first, None if none."""
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    role = next((role for role, kind in parts.items() if isinstance(first, kind)), None)
    return None if role is None else (role, path_of(type(first)))


def _at_work(frame: FrameType, parts: Kinds) -> tuple[str, str] | None:
    """Returns the same if the function is a method of the part, or a user's."""
    handed = _handed(frame, parts)
    if handed is None or user_code(frame) >= USERS:
        return handed
    code = frame.f_code
    return handed if hasattr(type(frame.f_locals[code.co_varnames[0]]), code.co_name) else None


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
    except (OutriderError, ProcessEnded):
        raise
    except BaseException as error:
        if not is_fault(error):
            raise
        found = culprit(error) or (None if drafter is None else ("drafter", path_of(type(drafter))))
        if found is None or out_of_memory(error):
            raise
        raise ERRORS.get(found[0], PluginError)(told(*found, error)) from error
