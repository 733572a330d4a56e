"""Methods that can't be called as those of their role are refused, whatever they are made of."""

from functools import partial
from types import FunctionType
from typing import Any

import pytest

from outrider import ConfigError, Constraint, Policy, Session
from outrider.base.instances import misfit, require_instance, require_methods
from outrider.plugins.roles import ROLES

OURS = [role.kind for role in ROLES.values() if role.kind and "outrider" in role.kind.__module__]


def methods(role: type) -> list[str]:
    return [
        name
        for name, value in vars(role).items()
        if isinstance(value, FunctionType) and not name.startswith("_")
    ]


@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role in [*OURS, Session] for name in methods(role)]
)
def test_a_method_that_takes_too_much_is_refused_in_every_role(role: Any, name: str) -> None:
    def wrong(self: Any, *, more: int) -> None: ...

    fault = misfit(type("Own", (role,), {name: wrong}), role)
    assert fault is not None and fault.startswith(f"has {name}(self, *, more) ({__file__}:")
    assert f": expected {name}(self" in fault
    assert misfit(type("Open", (role,), {name: lambda *_, **__: None}), role) is None
    assert misfit(role, role) is None


class Callable_:
    def __call__(self, draft: Any) -> bool:
        return True


def later(self: Any, draft: "NoSuchType") -> bool:  # type: ignore[name-defined]
    return True


@pytest.mark.parametrize(
    "more",
    [
        lambda self, draft, extra=None: True,
        lambda *args: True,
        staticmethod(lambda draft: True),
        classmethod(lambda cls, draft: True),
        property(lambda self: lambda draft: True),
        partial(lambda draft: True),
        Callable_(),
        later,
        bool,
    ],
)
def test_a_method_of_any_make_that_takes_a_draft_fits(more: Any) -> None:
    assert misfit(type("Own", (Policy,), {"more": more}), Policy) is None


@pytest.mark.parametrize(
    ("more", "written"),
    [
        (lambda self: True, "more(self)"),
        (lambda self, draft, x: True, "more(self, draft, x)"),
        (staticmethod(lambda self, draft: True), "more(self, draft)"),
        (classmethod(lambda cls: True), "more(cls)"),
        (partial(lambda: True), "more()"),
        (True, "more=True"),
        (None, "more=None"),
    ],
)
def test_a_method_that_takes_no_draft_is_refused(more: Any, written: str) -> None:
    part = type("Own", (Policy,), {"more": more, "depth": lambda self, gamma: gamma})()
    with pytest.raises(ConfigError) as raised:
        require_methods("policy", part, Policy)
    line = str(raised.value)
    assert line.startswith(f"policy Own has {written}")
    assert line.endswith(": expected more(self, draft)")


def test_a_part_of_another_class_is_refused() -> None:
    require_instance("constraint", Constraint(), Constraint)
    with pytest.raises(ConfigError, match=r"^constraint=3: expected an instance of Constraint$"):
        require_instance("constraint", 3, Constraint)
