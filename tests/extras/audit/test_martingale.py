"""Fortunes are fair: no bet gains on average under the expected distribution."""

import math

import numpy as np
import pytest

from outrider.extras.audit.martingale import Bet, Bets, Learned, Place, Rates, log_mean

SIZE = 4
NAMES = range(SIZE)
BETS = [
    *[lambda length=length: Learned(length) for length in (None, 0, 1, 2)],
    *[lambda index=index: Rates(index) for index in range(5)],
]


def after_history(make: object, draws: np.random.Generator) -> Bet:
    bet: Bet = make()  # type: ignore[operator]
    for _ in range(20):
        before = tuple(draws.integers(SIZE, size=draws.integers(4)).tolist())
        probs = draws.dirichlet(np.ones(SIZE))
        token, beside = draws.integers(SIZE, size=2).tolist()
        bet.see("prompt", [(Place(probs, NAMES, before, beside), token)])
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
            bet.see("prompt", [(Place(probs, NAMES, before, 2), token)])
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
        probs = draws.dirichlet(np.ones(size))
        text.append((Place(probs, range(size - 1), tokens[:place], 1), tokens[place]))
    whole.see("prompt", text)
    for observed in text:
        apart.see("prompt", [observed])
    assert whole.growth == pytest.approx(apart.growth)


def test_new_tokens_are_those_that_a_text_has_only_had_since_two() -> None:
    for before, new in (((0, 1, 2), {1, 2}), ((3, 0, 3), {0}), ((1,), {1}), ((), set())):
        is_new, probs = Place(np.full(SIZE, 1 / SIZE), NAMES, before).kinds[3]
        assert {token for token in NAMES if is_new(token)} == new
        assert probs[1] == len(new) / SIZE


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
                text.append((Place(rows[row], NAMES, tuple(tokens), 2, sd), token))
                tokens.append(token)
            bet.see("prompt", text)
        ends.append(bet.growth)
    assert max(ends) < math.log(100)


def test_the_growth_of_several_bets_is_that_of_their_mean_fortune() -> None:
    bets = Bets()
    assert bets.growth == pytest.approx(0)
    for _ in range(50):
        bets.see("prompt", [(Place(np.full(SIZE, 1 / SIZE), NAMES), 0)])
    assert bets.growth == pytest.approx(log_mean([bet.growth for bet in bets._played])) != 0
