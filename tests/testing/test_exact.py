"""Exact distributions are right where they can be worked out by hand."""

import itertools

import pytest
import torch

from outrider import EnumeratedChance, Sampling
from outrider.drafters.none import NoDraft
from outrider.drafters.random import Random
from outrider.targets.tabular import TabularTarget
from outrider.testing import loop_distribution, output_distribution, target_distribution
from outrider.testing.stage import ChainDrafter
from outrider.testing.verifiers import accepted_tokens
from outrider.verifiers.token import Token

SAMPLED = Sampling(temperature=1.0)
COIN = TabularTarget.of(torch.tensor([[0.25, 0.75]]), order=0)


def test_the_distribution_of_independent_tokens_is_a_product() -> None:
    probs = target_distribution(COIN, [0], 3, SAMPLED, Token())
    for text in itertools.product((0, 1), repeat=3):
        assert probs[text] == pytest.approx(0.75 ** sum(text) * 0.25 ** (3 - sum(text)), abs=1e-15)


@pytest.mark.parametrize("drafter", [NoDraft(), Random()])
def test_round_and_loop_give_the_same_distribution(drafter: NoDraft | Random) -> None:
    exact = target_distribution(COIN, [0], 3, SAMPLED, Token())
    once = output_distribution(COIN, drafter, Token(), [0], gamma=2, sampling=SAMPLED)
    loop = loop_distribution(COIN, drafter, Token(), [0], gamma=2, length=3, sampling=SAMPLED)
    for text, p in exact.items():
        assert once[text] == pytest.approx(p, abs=1e-12)
        assert loop[text] == pytest.approx(p, abs=1e-12)


def test_probabilities_add_up_to_one() -> None:
    target = TabularTarget(3)
    for kind in ("drawn", "mixed", "short"):
        probs = output_distribution(
            target, ChainDrafter(target, kind), Token(), [1], gamma=2, sampling=SAMPLED
        )
        assert sum(probs.values()) == pytest.approx(1, abs=1e-12)


def test_the_published_example_of_accepted_tokens() -> None:
    """Sun et al. (2403.10444, section 2): 10/9 tokens by the token rule at gamma 2."""
    target = TabularTarget.of(torch.tensor([[1 / 3, 2 / 3]], dtype=torch.float64), order=0)
    drafter = ChainDrafter(target, "drawn")
    drafter._distribution = lambda tokens: torch.tensor([2 / 3, 1 / 3], dtype=torch.float64).log()
    assert accepted_tokens(Token(), drafter, target, [0], 2) == pytest.approx(10 / 9, abs=1e-12)


def test_a_play_that_is_random_by_itself_is_found_out() -> None:
    with pytest.raises(RuntimeError, match="replay"):
        list(EnumeratedChance.outcomes(lambda chance: chance.coins(torch.rand(2))))
