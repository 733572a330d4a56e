"""A text has a limited part in evidence, faults are planted, and two samples differ or do not."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from outrider.extras.audit.client import Choice, Token
from outrider.extras.audit.evidence import CONTROL, MOST, RATES, Evidence, TwoSamples


class Gathered:
    """Gathers evidence by each token "b", and by no other."""

    growth = 0.0

    def see(self, tokens: Sequence[Token]) -> None:
        self.growth += tokens.count("b")


def seen(alike: str, *texts: str) -> Evidence:
    evidence = Evidence(Gathered)
    for text in texts:
        evidence.see(text, [alike] * len(text), Gathered.see)
    return evidence


def test_one_text_is_taken_for_so_much_evidence_and_no_more() -> None:
    assert seen("a", "ab", "ab").growths[0] == 2
    assert seen("b", "b" * 99, "b" * 99).growths[0] == pytest.approx(2 * MOST)
    assert math.log(1 / 0.01) + math.log(4 / 0.01) > MOST  # what one fortune has to reach


def test_tokens_that_look_right_are_planted_as_often_as_it_is_told() -> None:
    evidence = seen("b", *["a" * 50] * 40)
    shares = evidence._changed / evidence._tokens
    assert shares == pytest.approx(RATES, abs=0.02) and shares[0] == 0
    assert evidence.growths[0] == 0 < evidence.growths[CONTROL]
    assert (evidence.least(100), evidence.least(1e9)) == (shares[1], None)
    assert seen("b", *["ab"] * 7).least(0) is None
    assert seen("", "b", "a" * 50).growths[CONTROL] > 1  # those of the first text, if none is known


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
