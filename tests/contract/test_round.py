"""A round knows its text, and rates are made of sums of counts."""

from dataclasses import replace
from typing import Any

import pytest

from outrider import Counts, Round


def made(drafted: int, tested: int, accepted: int, emitted: int) -> Round:
    return Round(
        (0,) * emitted, (), ("",) * emitted, (0,) * drafted, (), (), drafted, tested, accepted, {}
    )


def test_counts_add_up() -> None:
    counts = Counts.of([made(4, 3, 2, 3), made(4, 4, 4, 5)])
    assert counts == Counts(rounds=2, drafted=8, tested=7, accepted=6, emitted=8)
    assert counts.alpha_tested == pytest.approx(6 / 7)
    assert counts.acceptance_rate == pytest.approx(6 / 8)
    assert counts.block_efficiency == pytest.approx(8 / 2)


def test_a_rate_of_nothing_is_none() -> None:
    assert Counts().block_efficiency is None
    plain = Counts.of([made(0, 0, 0, 1)] * 3)
    assert plain.alpha_tested is None
    assert plain.acceptance_rate is None
    assert plain.block_efficiency == 1


def test_the_text_of_a_round_is_that_of_its_pieces(outcome: Any) -> None:
    assert replace(outcome(3, 1), pieces=("Name ", "three")).text == "Name three"
