"""The kit: which checks a part has to pass, and the ways to run them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from time import perf_counter
from typing import Any, final

from outrider.base.errors import OutriderError, message_of
from outrider.contract.constraint import Constraint
from outrider.contract.drafter import Drafter
from outrider.contract.policy import Policy
from outrider.contract.target import Target
from outrider.contract.verifier import Verifier
from outrider.decoding.clock import TimeUp, has_timer, time_limit
from outrider.targets.passes.cached_model import SOURCE
from outrider.testing import (
    batches,
    constraints,
    data,
    drafter_distributions,
    drafter_histories,
    drafters,
    examples,
    policies,
    targets,
    verifier_distributions,
    verifiers,
)
from outrider.testing.enumerated import ReplayError

LIMIT = 3600
"""Seconds after which a check is taken to hang."""

Make = Callable[[], Any]
Check = Callable[[Any], str | None]
"""Raises AssertionError if a part is at fault; returns why the part refuses what is checked."""


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
    """Returns the checks for the part that `make` makes.

    thorough: add those of larger cases, which may take minutes.

    Raises:
        TypeError: the part is of no role that has checks.
        OutriderError: Python runs without assertions (-O), so that no check could fail.
    """
    if not __debug__:
        raise OutriderError("the checks are assertions: expected Python without -O")
    if not callable(make):
        raise TypeError(f"expected a callable that makes the part, such as its class, got {make!r}")
    return tuple(_yield_checks(make(), thorough))


def _yield_checks(part: Any, thorough: bool) -> Iterator[Check]:
    """Yields the checks of a part's role, and of what the part says that it can do.

    The prompts that a data source returns are a part, too. A class of another role names the place
    of its checks, "module:name", as its attribute `checks`.
    """
    if isinstance(part, Drafter):
        yield from _of_drafter(part, thorough)
    elif isinstance(part, Verifier):
        yield from _of_verifier(part, thorough)
    elif isinstance(part, Policy):
        yield from _of_policy(part, thorough)
    elif isinstance(part, Target):
        yield from targets.CHECKS
        yield from batches.CHECKS
    elif isinstance(part, Constraint):
        yield from constraints.CHECKS
    elif isinstance(part, list):
        yield from data.SOURCE_CHECKS
    elif isinstance(place := getattr(part, "checks", None), str):
        yield from resolve_name(place)
    else:
        raise TypeError(
            "expected a callable that makes a Drafter, Verifier, Policy, Target or Constraint, or"
            f" another part with `checks`, or returns prompts, got {type(part).__name__}"
        )


def _of_drafter(drafter: Drafter, thorough: bool) -> Iterator[Check]:
    yield from drafters.CHECKS
    if drafter.observes:  # which says best what is left over
        yield from drafter_histories.OBSERVING
    yield from drafter_distributions.CHECKS
    if drafter.kind == "paths":
        yield drafters.check_paths_are_of_one_length
    if drafter.autoregressive and not drafter.trees:
        yield drafter_distributions.check_is_autoregressive_if_it_says_so
    if drafter.needs <= {SOURCE}:
        yield drafter_distributions.check_the_source_is_part_of_the_context
    if drafter.remembers:
        yield from drafter_histories.REMEMBERING
    if drafter_histories.parts_of(drafter):
        yield drafter_histories.check_its_parts_are_told_all
    if drafter.examples:
        yield examples.check_its_examples_of_drafts_hold
    if thorough:
        yield from drafter_distributions.THOROUGH
    if thorough and drafter.observes:
        yield drafter_histories.check_observations_over_more_rounds


def _of_verifier(verifier: Verifier, thorough: bool) -> Iterator[Check]:
    yield from verifier_distributions.CHECKS
    yield from verifiers.CHECKS
    if verifier.coupled:
        yield verifiers.check_text_depends_on_the_seed_alone
    if verifier.examples:
        yield examples.check_its_examples_of_verdicts_hold
    if thorough:
        yield from verifier_distributions.THOROUGH


def _of_policy(policy: Policy, thorough: bool) -> Iterator[Check]:
    yield from policies.CHECKS
    if policy.learns:
        yield policies.check_the_second_text_of_a_seed
    if policy.examples:
        yield examples.check_its_examples_of_lengths_hold
    if thorough:
        yield from policies.THOROUGH


def check_drafter(make: Callable[[], Drafter]) -> None:
    """Runs every check of a drafter; raises AssertionError at the first that fails."""
    _run(make)


def check_verifier(make: Callable[[], Verifier]) -> None:
    """Runs every check of an acceptance rule; raises AssertionError at the first that fails."""
    _run(make)


def check_policy(make: Callable[[], Policy]) -> None:
    """Runs every check of a policy; raises AssertionError at the first that fails."""
    _run(make)


def check_target(target: Target) -> None:
    """Runs every check of a target; raises AssertionError at the first that fails.

    Unlike the other parts, a target is handed over itself: its sessions are independent.
    """
    _run(lambda: target)


def _run(make: Make) -> None:
    for check in checks_of(make):
        _call(check, make)


def _call(check: Check, make: Make) -> str | None:
    try:
        return check(make)
    except ReplayError as error:
        raise AssertionError(f"{type(make()).__name__} {error}") from error


def run_checks(make: Make, thorough: bool = False) -> Iterator[Outcome]:
    """Yields the outcome of each check when it is done; runs the others even if one fails.

    thorough: add the checks of larger cases, which may take minutes.
    """
    for check in checks_of(make, thorough):
        began = perf_counter()
        fault, refused = None, None
        try:
            with time_limit(LIMIT if has_timer() else None):
                refused = _call(check, make)
        except TimeUp:
            fault = f"ran longer than {LIMIT} s, and was ended"
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
