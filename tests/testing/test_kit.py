"""The ways to run the checks agree."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider import Context, Drafter, Fixed, OutriderError, Pen
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.drafters.suffix import Suffix
from outrider.drafters.token_recycling import TokenRecycling
from outrider.policies.bandit import Bandit
from outrider.targets.tabular import TabularTarget
from outrider.testing import (
    batches,
    check_drafter,
    check_verifier,
    checks_of,
    drafter_distributions,
    drafter_histories,
    drafters,
    examples,
    kit,
    parametrize_with_checks,
    policies,
    run_checks,
    targets,
    verifier_distributions,
    verifiers,
)
from outrider.testing.kit import Check
from outrider.verifiers.gumbel import Gumbel
from outrider.verifiers.recursive import MultiStep
from outrider.verifiers.token import Token

SOURCE = drafter_distributions.check_the_source_is_part_of_the_context


class Impatient(Drafter):
    """Never asks whether the pen is open."""

    def propose(self, context: Context, pen: Pen) -> None:
        for _ in range(pen.gamma + 1):
            pen.write(0)


def test_a_part_has_the_checks_of_its_role() -> None:
    assert checks_of(Impatient) == drafters.CHECKS + drafter_distributions.CHECKS + (SOURCE,)
    assert checks_of(TabularTarget) == targets.CHECKS + batches.CHECKS
    assert examples.check_its_examples_of_verdicts_hold in checks_of(MultiStep)
    for make, module in (
        (Impatient, drafter_distributions),
        (Token, verifier_distributions),
        (Fixed, policies),
    ):
        assert checks_of(make, thorough=True) == checks_of(make) + module.THOROUGH
    with pytest.raises(TypeError, match="with `checks`, or returns prompts, got int"):
        checks_of(int)


def test_a_part_has_the_checks_of_its_abilities() -> None:
    assert set(drafter_histories.REMEMBERING) <= set(checks_of(Suffix))
    assert set(drafter_histories.OBSERVING) <= set(checks_of(TokenRecycling))
    assert verifiers.check_text_depends_on_the_seed_alone in checks_of(Gumbel)
    assert policies.check_the_second_text_of_a_seed in checks_of(partial(Bandit, c=0.1))


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
        check.__name__.removeprefix("check_") for check in checks_of(Impatient)
    ]
    assert outcomes[0].fault == "wrote to depth 1: gamma is 0"
    assert all(outcome.says for outcome in outcomes)
    assert {outcome.fault for outcome in run_checks(NoDraft)} == {None}


def test_a_check_that_hangs_is_ended_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_forever(make: object) -> None:
        while True:
            make()

    monkeypatch.setattr(kit, "LIMIT", 0.1)
    monkeypatch.setattr(kit, "checks_of", lambda *_: (check_forever,))
    (outcome,) = run_checks(NoDraft)
    assert (outcome.check, outcome.fault) == ("forever", "ran longer than 0.1 s, and was ended")


def test_an_expected_failure_is_marked_strict() -> None:
    mark = parametrize_with_checks([Impatient], {"check_stays_within_gamma": "never asks"})
    first, second = mark.args[1][:2]
    assert first.id == "Impatient-check_stays_within_gamma"
    assert first.marks[0].kwargs == {"reason": "never asks", "strict": True}
    assert not second.marks


POOL: list[int] = []


class SharesAPool(Drafter):
    """Draws from all tokens that any instance has seen."""

    def propose(self, context: Context, pen: Pen) -> None:
        POOL.extend(context.tokens[-1:])
        while pen.open:
            pen.draw(torch.bincount(torch.tensor(POOL), minlength=pen.vocab_size).log())


def siblings() -> Drafter:
    """Returns a drafter that says that it writes chains, and writes two tokens side by side."""
    drafter = Random("2x2")
    drafter.kind = "chain"
    return drafter


@pytest.mark.parametrize(
    ("faulty", "check", "message"),
    [
        (SharesAPool, drafters.check_depends_only_on_context, "a new one"),
        (
            SharesAPool,
            drafter_distributions.check_output_distribution_is_the_targets,
            "SharesAPool drew other decisions in a replay of the same text: state is left over",
        ),
        (
            siblings,
            drafter_distributions.check_output_distribution_is_the_targets,
            "says kind='chain', but tokens 0 and 1 are siblings",
        ),
    ],
)
def test_a_check_names_the_part_at_fault(
    faulty: Callable[[], Drafter], check: Check, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit, "checks_of", lambda *_: (check,))
    (outcome,) = run_checks(faulty)
    assert message in (outcome.fault or "")
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_drafter(faulty)
