"""The kit: which checks a part has to pass, and the ways to run them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from time import perf_counter
from typing import Any, final

from outrider.base.errors import OutriderError, message_of
from outrider.base.instances import require_methods
from outrider.contract.constraint import Constraint
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.testing import (
    batches,
    constraints,
    decisions,
    drafters,
    drawing,
    ground,
    loop,
    policies,
    sources,
    targets,
    verifiers,
)

Make = Callable[[], Any]
Check = Callable[[Any], str | None]
"""Raises AssertionError if a part is at fault; returns why the part refuses what is checked."""
GROUND: tuple[Check, ...] = (*ground.CHECKS, *decisions.CHECKS, *drawing.CHECKS, *loop.CHECKS)
"""The checks of what the others rest on."""


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one check.

    check: its name. says: what it asserts, the first paragraph of its docstring.
    fault: the fault in one line; None if it passed. seconds: how long it took.
    refused: why a part does not offer what is checked, which is no fault; None if it does.
    """

    check: str
    says: str
    fault: str | None
    seconds: float
    refused: str | None = None


def checks_of(make: Make, thorough: bool = False) -> tuple[Check, ...]:
    """Returns the checks for the part that `make` makes, after that of the ground they rest on.

    The prompts that a data source returns are a part, too. A class of another kind names the place
    of its checks, "module:name", as its attribute `checks`.

    thorough: add those of larger cases, which may take minutes.

    Raises:
        TypeError: the part is of no role that has checks.
        ConfigError: a method of the part can't be called as that of its role.
        OutriderError: Python runs without assertions (-O), so that no check could fail.
    """
    _need_maker_and_assertions(make)
    part = make()
    for kind in (Drafter, Verifier, Policy, Target, Constraint):
        if isinstance(part, kind):
            require_methods(kind.__name__.lower(), part, kind)
    for kind, module in ((Drafter, drafters), (Verifier, verifiers), (Policy, policies)):
        if isinstance(part, kind):
            checks: tuple[Check, ...] = module.CHECKS + (module.THOROUGH if thorough else ())
            return GROUND + checks
    if isinstance(part, Target):
        return target_checks()
    if isinstance(part, Constraint):
        return GROUND + constraints.CHECKS
    if isinstance(part, list):
        return sources.CHECKS
    if isinstance(place := getattr(part, "checks", None), str):
        own: tuple[Check, ...] = resolve_name(place)
        return own
    raise TypeError(
        "expected a callable that makes a Drafter, Verifier, Policy, Target or Constraint, or"
        f" another part with `checks`, or returns prompts, got {type(part).__name__}"
    )


def target_checks() -> tuple[Check, ...]:
    """Returns the checks of a target, those of several texts at once included."""
    return targets.CHECKS + batches.CHECKS


def check_drafter(make: Callable[[], Drafter]) -> None:
    """Runs every check of a drafter; raises AssertionError at the first that fails."""
    _run(GROUND + drafters.CHECKS, make)


def check_verifier(make: Callable[[], Verifier]) -> None:
    """Runs every check of an acceptance rule; raises AssertionError at the first that fails."""
    _run(GROUND + verifiers.CHECKS, make)


def check_policy(make: Callable[[], Policy]) -> None:
    """Runs every check of a policy; raises AssertionError at the first that fails."""
    _run(GROUND + policies.CHECKS, make)


def check_target(target: Target) -> None:
    """Runs every check of a target; raises AssertionError at the first that fails.

    Unlike the other parts, a target is handed over itself: its sessions are independent.
    """
    _run(target_checks(), lambda: target)


def _run(checks: Sequence[Check], make: Make) -> None:
    _need_maker_and_assertions(make)
    for check in checks:
        check(make)


def _need_maker_and_assertions(make: object) -> None:
    if not __debug__:
        raise OutriderError("the checks are assertions: expected Python without -O")
    if not callable(make):
        raise TypeError(f"expected a callable that makes the part, such as its class, got {make!r}")


def run_checks(make: Make, thorough: bool = False) -> Iterator[Outcome]:
    """Yields the outcome of each check when it is done; runs the others even if one fails.

    thorough: add the checks of larger cases, which may take minutes.
    """
    for check in checks_of(make, thorough):
        began = perf_counter()
        fault, refused = None, None
        try:
            refused = check(make)
        except Exception as error:  # noqa: BLE001  any exception is a fault of the part
            fault = message_of(error) or type(error).__name__
            if not isinstance(error, AssertionError | OutriderError):
                fault = f"{type(error).__name__}: {fault}"
        says = " ".join((check.__doc__ or "").split("\n\n")[0].split())
        name, seconds = check.__name__.removeprefix("check_"), perf_counter() - began
        yield Outcome(name, says, fault, seconds, refused)


def parametrize_with_checks(
    makes: Sequence[Make], expected_failures: Mapping[str, str] | None = None
) -> Any:
    """Returns a pytest decorator that makes one test of each part and check.

    The test function gets the arguments `make` and `check`.

    expected_failures: maps the name of a check that must fail to the reason.
    """
    import pytest

    reasons = expected_failures or {}
    return pytest.mark.parametrize(
        ("make", "check"),
        [
            pytest.param(
                make,
                check,
                id=f"{getattr(make, '__name__', None) or type(make()).__name__}-{check.__name__}",
                marks=[pytest.mark.xfail(reason=reasons[check.__name__], strict=True)]
                if check.__name__ in reasons
                else [],
            )
            for make in makes
            for check in checks_of(make)
        ],
    )
