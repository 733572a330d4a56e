"""Every built-in part judges each of its settings by the annotation, and names the setting."""

import inspect
import re
from collections.abc import Iterator

import pytest

from outrider import ConfigError
from outrider.base.annotations import hints_of
from outrider.base.bounds import check
from outrider.plugins.registry import installed, make

ROLES = ("drafter", "verifier", "policy")
WRONG = (object(), "\0", -1, 0, 2.5)
"""Values of which most annotations allow some, and none all."""
UNTRAINED = {"path": "untrained", "model": "untrained"}


def settings() -> Iterator[tuple[str, str, str]]:
    """Yields the role, the part and the name of each setting whose values are checked."""
    for role in ROLES:
        for name, entry in installed().of(role).items():
            if hasattr(entry.product.__init__, "__wrapped__") and name != "classifier":  # a file
                known = inspect.signature(entry.factory).parameters
                for setting, hint in hints_of(entry.product.__init__).items():
                    if setting in known and any(not allows(hint, value) for value in WRONG):
                        yield role, name, setting


def allows(hint: object, value: object) -> bool:
    try:
        check({"x": hint}, {"x": value})
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(("role", "name", "setting"), list(settings()))
def test_a_value_that_its_annotation_does_not_allow_is_refused(
    role: str, name: str, setting: str
) -> None:
    entry = installed().of(role)[name]
    hint = hints_of(entry.product.__init__)[setting]
    needed = {
        key: UNTRAINED[key]
        for key, found in inspect.signature(entry.factory).parameters.items()
        if found.default is found.empty
    }
    for value in WRONG:
        if not allows(hint, value):
            with pytest.raises(ConfigError, match=re.escape(f"{role}.{setting}=")):
                make(role, name, **needed | {setting: value})
