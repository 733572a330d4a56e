"""Exact distributions agree with those that can be worked out by hand."""

import itertools

import pytest
import torch

from outrider import Sampling
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget
from outrider.testing import Setup, loop_distribution, output_distribution, target_distribution
from outrider.testing.enumerated import EnumeratedChance
from outrider.testing.table_drafters import ChainDrafter
from outrider.verifiers.token import Token

SAMPLED = Sampling(temperature=1.0)
COIN = TabularTarget.of(torch.tensor([[0.25, 0.75]]), order=0)


@pytest.mark.parametrize("drafter", [NoDraft(), Random()])
def test_round_and_loop_give_independent_tokens_their_product(drafter: NoDraft | Random) -> None:
    setup = Setup(COIN, drafter, Token(), [0], gamma=2, sampling=SAMPLED)
    exact = target_distribution(COIN, [0], 3, SAMPLED, Token())
    for probs in (exact, output_distribution(setup), loop_distribution(setup, 3)):
        for text in itertools.product((0, 1), repeat=3):
            p = 0.75 ** sum(text) * 0.25 ** (3 - sum(text))
            assert probs[text] == pytest.approx(p, abs=1e-12)


def test_a_text_that_ends_early_is_as_likely_as_all_that_go_on_with_it() -> None:
    target = TabularTarget(3)
    for kind in ("written", "short", "late"):
        drafter = ChainDrafter(target, kind)
        setup = Setup(target, drafter, Token(), [1], gamma=3, sampling=SAMPLED)
        whole, short = output_distribution(setup), output_distribution(setup, whole=False)
        assert len(short) < len(whole) == 3**4
        for text, p in short.items():
            longer = (q for other, q in whole.items() if other[: len(text)] == text)
            assert p == pytest.approx(sum(longer), abs=1e-15)


def test_the_first_decisions_may_be_taken_in_one_way_alone() -> None:
    coins = torch.tensor([0.5, 0.25, 0.1], dtype=torch.float64)
    outcomes = list(EnumeratedChance.outcomes(lambda chance: chance.coins(coins), begun=2))
    assert outcomes == [
        (0.5 * 0.75 * 0.1, [True, False, True]),
        (0.5 * 0.75 * 0.9, [True, False, False]),
    ]
    assert len(list(EnumeratedChance.outcomes(lambda chance: chance.coins(coins), begun=4))) == 1
