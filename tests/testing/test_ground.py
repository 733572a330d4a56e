"""The checks of the ground pass, and each catches faults of what it is about."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from outrider import OutriderError, SampledChance
from outrider.testing import ground
from outrider.testing.facts import assert_close, assert_is, assert_refused, once

Faults = tuple[tuple[Callable[[object], None], str, Any], ...]

FAULTS: Faults = (
    (
        ground.check_draws_are_as_likely_as_they_should_be,
        "outrider.contract.sampling.Sampling.probs",
        lambda sampling, logits: logits.softmax(-1),
    ),
    (
        ground.check_draws_are_as_likely_as_they_should_be,
        "outrider.contract.chance.SampledChance.coins",
        lambda chance, probs: [bool(chance._coins.random() < p) for p in (probs * probs).tolist()],
    ),
    (
        ground.check_draws_are_as_likely_as_they_should_be,
        "outrider.contract.chance.SampledChance.named",
        lambda chance, name: SampledChance(chance._key),
    ),
    (
        ground.check_the_pen_records_what_was_drawn,
        "outrider.contract.drawing.exact_distribution",
        lambda sampling, logits: sampling.probs(logits),
    ),
    (
        ground.check_the_pen_records_what_was_drawn,
        "outrider.contract.constraint.Guide.steered",
        lambda guide, logits: logits,
    ),
    (
        ground.check_the_pen_refuses_wrong_drafts,
        "outrider.contract.drawing.checked_logits",
        lambda logits, vocab_size: logits,
    ),
    (
        ground.check_the_pen_refuses_wrong_drafts,
        "outrider.contract.pen.Pen._settle",
        lambda pen: None,
    ),
    (
        ground.check_the_loop_counts_and_ends_as_it_should,
        "outrider.decoding.rounds.departure",
        lambda draft, kind: None,
    ),
    (
        ground.check_the_loop_keeps_its_parts_apart,
        "outrider.decoding.rounds.token_logprobs",
        lambda logits, tokens, count: (),
    ),
    (
        ground.check_the_loop_keeps_its_parts_apart,
        "outrider.decoding.rounds.constrained",
        lambda constraint, ids, draft, logits: logits,
    ),
)
"""By check, what is replaced, and by what."""


@pytest.mark.parametrize("check", ground.CHECKS)
def test_the_ground_holds(check: Callable[[object], None]) -> None:
    check(None)


@pytest.mark.parametrize(("check", "name", "fault"), FAULTS)
def test_the_check_catches_a_fault(
    check: Callable[[object], None], name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name, fault)
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        inspect.unwrap(check)()  # type: ignore[call-arg]


def test_every_check_has_a_fault() -> None:
    assert {check for check, _, _ in FAULTS} == set(ground.CHECKS)


def test_a_check_is_played_once_unless_it_fails() -> None:
    played: list[int] = []

    @once
    def check() -> None:
        """Holds from the second time on."""
        played.append(1)
        assert len(played) > 1

    with pytest.raises(AssertionError):
        check(None)
    check(None)
    check("another part")
    assert (len(played), check.__name__, check.__doc__) == (
        2, "check", "Holds from the second time on.",
    )  # fmt: skip


def test_a_broken_claim_is_one_line() -> None:
    assert_is("two", 2, 2)
    assert_close("a half", 0.5, 0.5 + 1e-13)
    assert_refused("nonsense", lambda: int("x"), ValueError)
    with pytest.raises(AssertionError, match=r"^two: got 3, expected 2$"):
        assert_is("two", 3, 2)
    for value in (0.6, float("nan")):
        with pytest.raises(AssertionError, match=r"^a half: got .*, expected 0.5$"):
            assert_close("a half", value, 0.5)
    with pytest.raises(AssertionError, match=r"^sense was not refused$"):
        assert_refused("sense", lambda: None, OutriderError)
