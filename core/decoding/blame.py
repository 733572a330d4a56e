"""Which part of a run an error comes from, told from its traceback."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from outrider.base.errors import (
    ANY_FAULT,
    DrafterError,
    OutriderError,
    PluginError,
    RankEnded,
    TargetError,
    described,
)
from outrider.base.interruption import out_of_memory
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
}
"""By role, the classes whose methods the loop calls."""

ERRORS = {"drafter": DrafterError, "target": TargetError}
"""By role, what its errors are raised as; those of other roles are a `PluginError`."""


def culprit(
    error: BaseException, parts: Mapping[str, type[Any] | tuple[type[Any], ...]] = PARTS
) -> tuple[str, str] | None:
    """Returns the role and the class of the part whose code raised an error; None if none did.

    That is the innermost object of a role's class among the callers: a policy that a drafter asks
    is named, and not the drafter.
    """
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        part = frame.f_locals.get(names[0]) if names else None
        for role, kind in parts.items():
            if isinstance(part, kind):
                found = role, type(part).__name__
    return found


@contextmanager
def named_errors(drafter: Drafter | None = None) -> Iterator[None]:
    """Raises whatever a part's code raises as one line that names the part and the place.

    An error of no part, of memory that is full or of a library that is missing stays as it is.

    drafter: the one at work, which is named if no other part's code raised the error.
    """
    name = type(drafter).__name__
    try:
        yield
    except DrafterError as error:
        if drafter is None:
            raise
        raise DrafterError(f"drafter {name} {error}") from error
    except (OutriderError, RankEnded):
        raise
    except ANY_FAULT as error:
        if drafter is None and isinstance(error, ModuleNotFoundError):
            raise
        found = culprit(error) or (None if drafter is None else ("drafter", name))
        if found is None or out_of_memory(error):
            raise
        role, part = found
        raise ERRORS.get(role, PluginError)(f"{role} {part} raised {described(error)}") from error
