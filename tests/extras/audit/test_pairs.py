"""Two engines of one distribution gain nothing, and what differs anywhere in texts is found."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from outrider.extras.audit.client import Choice
from outrider.extras.audit.pairs import TwoSamples


def written(*tokens: int) -> Choice:
    """Returns a text whose tokens are listed by how likely they are after the one before."""
    rows = tuple({0: -0.1 - last, 1: -2.3 + last} for last in (0, *tokens[:-1]))
    return Choice("", tokens, likeliest=rows)


TEXTS = [written(*tokens) for tokens in itertools.product(range(2), repeat=2)]


def test_two_samples_of_one_distribution_gain_nothing() -> None:
    probs = [*zip(TEXTS, (0.5, 0.2, 0.2, 0.1), strict=True)]
    mean = 0.0
    for (mine, one), (theirs, two) in itertools.product(probs, repeat=2):
        pair = TwoSamples()
        for first, second in (((0, 1), (1, 1)), ((0, 0), (1, 0)), ((1, 1), (1, 1))):
            pair.see("prompt", written(*first), written(*second))
        start = np.exp(pair.growths)
        pair.see("prompt", mine, theirs)
        mean += one * two * (np.exp(pair.growths) / start)
    assert mean == pytest.approx(np.ones_like(start))


def often(draws: np.random.Generator, before: int, rate: float = 0.0) -> int:
    """Draws one of eight tokens after another one; by a chance of `rate` it is the next one."""
    if draws.random() < rate:
        return (before + 1) % 8
    return int((before + draws.choice(8, p=np.arange(1, 9) / 36)) % 8)


def text(draws: np.random.Generator, length: int, rate: Callable[[int], float]) -> Choice:
    tokens = [0]
    for place in range(length):
        tokens.append(often(draws, tokens[-1], rate(place)))
    return Choice("", tuple(tokens))


@pytest.mark.parametrize(
    ("rate", "most"),
    [(lambda place: 0.1, 600), (lambda place: 0.2 * (place >= 40), 900), (lambda place: 0.0, 0)],
)
def test_a_tenth_of_another_distribution_is_found_wherever_it_is(
    rate: Callable[[int], float], most: int
) -> None:
    draws, pair, needed = np.random.default_rng(0), TwoSamples(), math.log(16 / 0.01)
    for _ in range(most or 600):
        pair.see("prompt", text(draws, 64, rate), text(draws, 64, lambda place: 0.0))
        if pair.growth >= needed:
            break
    assert (pair.growth >= needed) == bool(most)


def test_texts_that_share_their_seed_with_the_last_one_are_found() -> None:
    draws, pair = np.random.default_rng(0), TwoSamples()
    for _ in range(30):
        mine = text(draws, 24, lambda place: 0.0)
        for _ in range(2):
            pair.see("prompt", mine, text(draws, 24, lambda place: 0.0))
    assert pair.growth > math.log(16 / 0.01)
