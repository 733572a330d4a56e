"""The kit finds a loop that leaves out constraints, or records what it did not write."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from outrider.contract.constraint import Constraint
from outrider.decoding import rounds
from outrider.testing import constraints, kit, loop
from outrider.testing.loop import NoRepeats, check_rounds_are_what_was_written


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    loop.all_as_written.cache_clear()
    yield
    loop.all_as_written.cache_clear()


def test_the_loop_passes_its_check_which_every_part_has() -> None:
    check_rounds_are_what_was_written(None)
    assert check_rounds_are_what_was_written in kit.checks_of(Constraint)


FAULTS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "the target is not constrained": (
        "constrained",
        lambda _: lambda constraint, ids, draft, logits: logits,
        "under the constraint",
    ),
    "drafts are not steered": (
        "Guide",
        lambda _: lambda *_: None,
        "drafts what it forbids",
    ),
    "a constraint ends no text": ("checked_ends", lambda _: lambda *_: False, "stop"),
    "log-probabilities are lost": ("token_logprobs", lambda _: lambda *_: (), "logprobs"),
    "counts are off": (
        "_counts",
        lambda right: lambda *given: (right(*given)[0], *right(*given)[:2]),
        "counts",
    ),
    "a bonus counts as recovered": (
        "_emit",
        lambda right: (
            lambda *given: replace(
                emission := right(*given), origins=(*emission.origins[:-1], "recovered")
            )
        ),
        "origins",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_loop_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, patch, line = FAULTS[fault]
    monkeypatch.setattr(rounds, name, patch(getattr(rounds, name)))
    with pytest.raises(Exception, match=line):
        check_rounds_are_what_was_written(None)


def test_a_constraint_that_the_loop_ignores_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "constrained", lambda *given: given[-1])
    with pytest.raises(AssertionError, match="under the constraint"):
        constraints.check_texts_have_the_constrained_distribution(NoRepeats)
