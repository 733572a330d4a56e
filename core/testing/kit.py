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

LIMIT, AFTER_A_FAULT = 3600, 60
"""Seconds after which a check is taken to hang, and those for a check after one that failed."""

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
    rows = _rows(make(), thorough)
    return tuple(check for applies, *checks in rows if applies for check in checks)


def _rows(part: Any, thorough: bool) -> Sequence[tuple[Any, ...]]:
    """Returns the checks of a part's role, in rows that begin with whether they apply to the part.

    The prompts that a data source returns are a part, too. A class of another role names the place
    of its checks, "module:name", as its attribute `checks`.
    """
    if isinstance(part, Drafter):
        is_steady = part.autoregressive and not part.trees
        return (
            (True, *drafters.CHECKS),
            (part.observes, *drafter_histories.OBSERVING),  # which says best what is left over
            (True, *drafter_distributions.CHECKS),
            (
                type(part).computed is not Drafter.computed,
                drafters.check_what_it_computed_is_the_targets,
            ),
            (part.kind == "paths", drafters.check_paths_are_of_one_length),
            (is_steady, drafter_distributions.check_is_autoregressive_if_it_says_so),
            (part.needs <= {SOURCE}, drafter_distributions.check_the_source_is_part_of_the_context),
            (part.remembers, *drafter_histories.REMEMBERING),
            (drafter_histories.parts_of(part), drafter_histories.check_its_parts_are_told_all),
            (part.examples, examples.check_its_examples_of_drafts_hold),
            (thorough, *drafter_distributions.THOROUGH),
            (thorough and part.observes, drafter_histories.check_observations_over_more_rounds),
        )
    if isinstance(part, Verifier):
        return (
            (True, *verifier_distributions.CHECKS, *verifiers.CHECKS),
            (part.coupled, verifiers.check_text_depends_on_the_seed_alone),
            (part.examples, examples.check_its_examples_of_verdicts_hold),
            (thorough, *verifier_distributions.THOROUGH),
        )
    if isinstance(part, Policy):
        return (
            (True, *policies.CHECKS),
            (part.learns, policies.check_the_second_text_of_a_seed),
            (part.examples, examples.check_its_examples_of_lengths_hold),
            (thorough, *policies.THOROUGH),
        )
    if isinstance(part, Target):
        return ((True, *targets.CHECKS, *batches.CHECKS),)
    if isinstance(part, Constraint):
        return ((True, *constraints.CHECKS),)
    if isinstance(part, list):
        return ((True, *data.SOURCE_CHECKS),)
    if isinstance(place := getattr(part, "checks", None), str):
        return ((True, *resolve_name(place)),)
    raise TypeError(
        "expected a callable that makes a Drafter, Verifier, Policy, Target or Constraint, or"
        f" another part with `checks`, or returns prompts, got {type(part).__name__}"
    )


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
    limit = LIMIT
    for check in checks_of(make, thorough):
        began = perf_counter()
        fault, refused = None, None
        try:
            with time_limit(limit if has_timer() else None):
                refused = _call(check, make)
        except TimeUp:
            fault = f"ran longer than {limit} s, and was ended"
        except Exception as error:  # noqa: BLE001  any exception is a fault of the part
            fault = message_of(error) or type(error).__name__
            if not isinstance(error, AssertionError | OutriderError):
                fault = f"{type(error).__name__}: {fault}"
        says = " ".join((check.__doc__ or "").split("\n\n")[0].split())
        limit = AFTER_A_FAULT if fault else limit
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
    tests = []
    for make in makes:
        checks = checks_of(make)
        part = getattr(make, "__name__", None) or type(make()).__name__
        for check in checks:
            name = check.__name__
            marks = (
                [pytest.mark.xfail(reason=reasons[name], strict=True)] if name in reasons else []
            )
            tests.append(pytest.param(make, check, id=f"{part}-{name}", marks=marks))
    return pytest.mark.parametrize(("make", "check"), tests)
