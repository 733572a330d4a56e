"""The ways to run the checks agree."""

from pathlib import Path
from typing import Any

import pytest

from outrider import Context, Drafter, Fixed, OutriderError, Pen
from outrider.drafters.none import NoDraft
from outrider.testing import (
    check_drafter,
    check_verifier,
    checks_of,
    drafters,
    kit,
    parametrize_with_checks,
    policies,
    run_checks,
    verifiers,
)
from outrider.testing.kit import GROUND
from outrider.verifiers.token import Token


class Impatient(Drafter):
    """Never asks whether the pen is open."""

    def propose(self, context: Context, pen: Pen) -> None:
        for _ in range(pen.gamma + 1):
            pen.write(0)


def test_a_part_has_the_checks_of_its_role() -> None:
    assert checks_of(NoDraft) == GROUND + drafters.CHECKS
    assert checks_of(Token) == GROUND + verifiers.CHECKS
    for make, module in ((NoDraft, drafters), (Token, verifiers), (Fixed, policies)):
        assert checks_of(make, thorough=True) == (GROUND + module.CHECKS + module.THOROUGH)
    with pytest.raises(TypeError, match="with `checks`, or returns prompts, got int"):
        checks_of(int)


def test_check_drafter_and_check_verifier_run_them_all() -> None:
    check_drafter(NoDraft)
    check_verifier(Token)
    with pytest.raises(Exception, match="gamma is 0"):
        check_drafter(Impatient)


@pytest.mark.parametrize("part", [NoDraft(), "none"])
def test_a_part_that_is_not_made_by_the_kit_is_refused(part: Any) -> None:
    line = "expected a callable that makes the part, such as its class, got"
    for check in (check_drafter, checks_of, parametrize_with_checks):
        with pytest.raises(TypeError, match=line):
            check([part] if check is parametrize_with_checks else part)


def test_without_assertions_no_check_passes() -> None:
    """`python -O` takes them out of the checks, and sets `__debug__` to false as it compiles."""
    optimized: dict[str, Any] = {"__name__": kit.__name__}
    exec(compile(Path(kit.__file__).read_text(), kit.__file__, "exec", optimize=1), optimized)
    for way in ("check_drafter", "checks_of"):
        with pytest.raises(OutriderError, match="expected Python without -O"):
            optimized[way](Impatient)
    with pytest.raises(OutriderError, match="expected Python without -O"):
        list(optimized["run_checks"](Impatient))


def test_run_checks_continues_after_a_fault() -> None:
    outcomes = list(run_checks(Impatient))
    assert [outcome.check for outcome in outcomes] == [
        check.__name__.removeprefix("check_") for check in GROUND + drafters.CHECKS
    ]
    assert [outcome.fault for outcome in outcomes[: len(GROUND)]] == [None] * len(GROUND)
    assert outcomes[len(GROUND)].fault == "wrote to depth 1: gamma is 0"
    assert all(outcome.says for outcome in outcomes)
    assert {outcome.fault for outcome in run_checks(NoDraft)} == {None}


def test_an_expected_failure_is_marked_strict() -> None:
    mark = parametrize_with_checks([Impatient], {"check_stays_within_gamma": "never asks"})
    first, second = mark.args[1][len(GROUND) :][:2]
    assert first.id == "Impatient-check_stays_within_gamma"
    assert first.marks[0].kwargs == {"reason": "never asks", "strict": True}
    assert not second.marks
