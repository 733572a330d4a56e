"""The kit's check of random decisions holds, and finds decisions that share a number."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from outrider.contract.chance import SampledChance
from outrider.testing import decisions, kit
from outrider.testing.decisions import check_decisions_are_independent


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    decisions.all_independent.cache_clear()
    yield
    decisions.all_independent.cache_clear()


def test_decisions_are_independent_and_every_part_is_told_so() -> None:
    check_decisions_are_independent(None)
    assert check_decisions_are_independent in kit.GROUND


MUTANTS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "one number for all coins": (
        "coins",
        lambda right: lambda self, probs: [right(copy.deepcopy(self), p[None])[0] for p in probs],
        "two coins",
    ),
    "one number for all tokens": (
        "categorical",
        lambda right: lambda self, probs: right(copy.deepcopy(self), probs),
        "two tokens depend",
    ),
    "one number for all positions": (
        "race",
        lambda right: lambda self, probs, position: right(self, probs, 0),
        "two tokens of two positions depend",
    ),
    "one number for all parts": (
        "named",
        lambda right: lambda self, name: SampledChance(bytes.fromhex(self.label)),
        "two tokens of two parts depend",
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_decisions_that_share_a_number_are_found(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, fault, line = MUTANTS[mutant]
    monkeypatch.setattr(SampledChance, name, fault(getattr(SampledChance, name)))
    with pytest.raises(AssertionError, match=line):
        check_decisions_are_independent(None)
