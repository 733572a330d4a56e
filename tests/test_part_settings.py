"""Every built-in part judges each of its settings by the annotation, and names the setting."""

import inspect
import re
from collections.abc import Iterator

import pytest

from outrider import ConfigError
from outrider.base.bounds import check
from outrider.base.calling import hints_of
from outrider.plugins.parts import make
from outrider.plugins.registry import installed

ROLES = ("drafter", "verifier", "policy")
UNTRAINED = {"path": "untrained", "model": "untrained"}


def settings() -> Iterator[tuple[str, str, str]]:
    """Yields the role, the part and the name of each setting whose values are checked."""
    for role in ROLES:
        for name, entry in installed().of(role).items():
            if hasattr(entry.product.__init__, "__wrapped__") and name != "classifier":  # a file
                known = inspect.signature(entry.factory).parameters
                for setting, hint in hints_of(entry.product.__init__).items():
                    if setting in known and wrong_values(hint):
                        yield role, name, setting


def wrong_values(hint: object) -> list[object]:
    """Returns values that an annotation does not allow, and that can't be turned into one."""
    is_number = allows(hint, 1) or allows(hint, 0.5)
    return [wrong for wrong in (object(), *[-1] * is_number) if not allows(hint, wrong)]


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
    for value in wrong_values(hint):
        with pytest.raises(ConfigError, match=re.escape(f"{role}.{setting}=")):
            make(role, name, **needed | {setting: value})
