"""Which part of a run an error comes from, told from its traceback."""

import traceback

from outrider.base.errors import described
from outrider.plugins.roles import ROLES

CALLED = ("constraint", "policy", "verifier", "drafter", "target", "report")
"""The roles of the parts whose methods a run calls."""


def blamed(error: BaseException) -> str:
    """Returns an error as one line that names the part whose code raised it, if it was one's.

    That is the innermost object of a role's class among the callers: a policy that a drafter asks
    is named, and not the drafter.
    """
    kinds = {role: ROLES[role].kind for role in CALLED}
    found = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        part = frame.f_locals.get("self")
        for role, kind in kinds.items():
            if kind is not None and isinstance(part, kind):
                found = f"{role} {type(part).__name__} raised "
    return f"{found}{described(error)}; --traceback shows where"
