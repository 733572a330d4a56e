"""Fortunes are fair: no bet gains on average under the expected distribution."""

import itertools
import math

import numpy as np
import pytest

from outrider.extras.audit.client import Token
from outrider.extras.audit.martingale import Bet, Bets, Learned, Observation, Suspicions, Tilted

SIZE = 4
CELLS: dict[Token, int] = {token: token for token in range(SIZE)}
BETS = [
    *[lambda length=length: Learned(length, 8.0) for length in (None, 0, 1, 2)],
    *[lambda kind=kind: Tilted(kind) for kind in ("likely", "last", "written", "new", "beside")],
]


def after_history(make: object, draws: np.random.Generator) -> Bet:
    bet: Bet = make()  # type: ignore[operator]
    for _ in range(20):
        before = tuple(draws.integers(SIZE, size=draws.integers(4)).tolist())
        probs = draws.dirichlet(np.ones(SIZE))
        token, beside = draws.integers(SIZE, size=2).tolist()
        bet.see("prompt", [Observation(probs, CELLS, token, before, beside)])
    return bet


@pytest.mark.parametrize("make", BETS)
def test_a_bet_is_fair_after_any_history(make: object) -> None:
    for seed in range(10):
        draws = np.random.default_rng(seed)
        probs, before = draws.dirichlet(np.ones(SIZE)), (1, 3)
        mean = 0.0
        for token in range(SIZE):
            bet = after_history(make, np.random.default_rng(seed))
            start = bet.growth
            bet.see("prompt", [Observation(probs, CELLS, token, before, 2)])
            mean += probs[token] * math.exp(bet.growth - start)
        assert mean == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("make", BETS)
def test_a_text_is_worth_its_tokens(make: object) -> None:
    whole, apart = (after_history(make, np.random.default_rng(0)) for _ in range(2))
    draws = np.random.default_rng(1)
    tokens = tuple(draws.integers(SIZE, size=6).tolist())
    sizes = (4, 3, 4, 2, 4, 4)  # a server may list fewer tokens here than there
    text = []
    for place, size in enumerate(sizes):
        cells: dict[Token, int] = {token: token for token in range(size - 1)}
        probs = draws.dirichlet(np.ones(size))
        text.append(Observation(probs, cells, tokens[place], tokens[:place], 1))
    whole.see("prompt", text)
    for observed in text:
        apart.see("prompt", [observed])
    assert whole.growth == pytest.approx(apart.growth)


def test_new_tokens_are_those_that_a_text_has_only_had_since_two() -> None:
    bet, probs = Tilted("new"), np.full(SIZE, 1 / SIZE)
    for before, token in (((0, 1, 2), 2), ((0, 1, 2), 1), ((3, 0, 3), 0), ((1,), 1)):
        start = bet.growth
        bet.see("prompt", [Observation(probs, CELLS, token, before)])
        assert bet.growth > start
    for before, token in (((0, 1, 2), 0), ((3, 0, 3), 3), ((1,), 2)):
        start = bet.growth
        bet.see("prompt", [Observation(probs, CELLS, token, before)])
        assert bet.growth < start


@pytest.mark.parametrize("make", BETS)
def test_a_bet_that_allows_for_rounding_gains_nothing_by_it(make: object) -> None:
    """Its distributions are off by as much as it allows for, in the same way at each visit."""
    sd, ends = 0.1, []
    for seed in range(40):
        draws = np.random.default_rng(seed)
        rows = draws.dirichlet(np.ones(SIZE), size=SIZE)
        served = rows * np.exp(sd * draws.normal(size=rows.shape))
        served /= served.sum(1, keepdims=True)
        bet: Bet = make()  # type: ignore[operator]
        for _ in range(60):
            text, tokens = [], [0]
            for _ in range(10):
                row = tokens[-1]
                token = int(draws.choice(SIZE, p=served[row]))
                text.append(Observation(rows[row], CELLS, token, tuple(tokens), 2, sd))
                tokens.append(token)
            bet.see("prompt", text)
        ends.append(bet.growth)
    assert max(ends) < math.log(100)


def test_the_growth_of_several_bets_is_that_of_their_mean_fortune() -> None:
    tilts = [Tilted("likely"), Tilted("last")]
    for played in (Bets(), Bets(tilts)):
        assert played.growth == pytest.approx(0)
        for _ in range(50):
            played.see("prompt", [Observation(np.full(SIZE, 1 / SIZE), CELLS, 0, ())])
    fortunes = [math.exp(bet.growth) for bet in tilts]
    assert played.growth == pytest.approx(math.log(sum(fortunes) / len(fortunes)))


FIRST, AGAIN = math.log(6 / 0.01), math.log(1 / 0.01)


def confirmed(*growths: float) -> bool:
    suspicions = Suspicions(0.01, 6)
    for value in growths:
        suspicions.see({"one": value, "other": 0.0})
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
