"""A suspicion is confirmed by what comes after it, and by nothing else."""

import itertools
import math

import pytest

from outrider.extras.audit.suspicion import Suspicions

FIRST, AGAIN = math.log(6 / 0.01), math.log(1 / 0.01)


def confirmed(*growths: float) -> bool:
    suspicions = Suspicions(0.01, 6)
    for growth in growths:
        suspicions.see({"one": growth, "other": 0.0})
    assert suspicions.confirmed <= {"one"}
    return bool(suspicions.confirmed)


def test_a_fortune_is_confirmed_once_it_has_grown_again() -> None:
    assert not confirmed(FIRST - 0.1, FIRST, FIRST + AGAIN - 0.1)
    assert confirmed(FIRST, FIRST + AGAIN)
    assert confirmed(FIRST, 0.0, FIRST + AGAIN, 0.0)


def test_a_single_text_confirms_nothing_however_odd_it_is() -> None:
    assert not confirmed(40.0, 40.0, 38.0)
    assert confirmed(40.0, 40.0 + AGAIN)


def test_no_fair_game_is_confirmed_more_often_than_the_square_of_the_level() -> None:
    level, win = 0.25, math.log(4)  # a coin that pays fourfold, with a chance of one in four
    chance = 0.0
    for tosses in itertools.product((True, False), repeat=6):
        suspicions, growth = Suspicions(level, 1), 0.0
        for toss in tosses:
            growth = growth + win if toss else -math.inf
            suspicions.see({"coin": growth})
        if suspicions.confirmed:
            chance += math.prod(0.25 if toss else 0.75 for toss in tosses)
    assert chance == pytest.approx(level**2)
