"""FLy keeps an isolated rejected token, and spends what its docstring says."""

import itertools
from functools import partial
from typing import Any

import pytest
import torch

from outrider import Draft, SampledChance, Sampling, Scores
from outrider.contract.verifier import Budget
from outrider.targets.tabular import TabularTarget
from outrider.testing.exact import Setup, output_distribution
from outrider.testing.table_drafters import ChainDrafter
from outrider.testing.verifier_distributions import (
    check_greedy_text_is_as_claimed,
    check_output_distribution_is_as_claimed,
)
from outrider.verifiers.fly import Fly, after_deferrals

SAMPLED = Sampling(temperature=1.0)


@pytest.mark.parametrize(
    "check", [check_output_distribution_is_as_claimed, check_greedy_text_is_as_claimed]
)
def test_a_window_of_one_keeps_to_the_ceiling(check: Any) -> None:
    check(partial(Fly, window=1))


@pytest.mark.parametrize("window", [1, 2, 3])
def test_rejections_stand_as_in_a_plain_reading_of_the_rule(window: int) -> None:
    for length in range(1, 5):
        for native in itertools.product([True, False], repeat=length):
            for deferrable in itertools.product([True, False], repeat=length):
                expected = 0
                while expected < length:
                    following = [
                        native[place] if place < length else False
                        for place in range(expected + 1, expected + 1 + window)
                    ]
                    if not native[expected] and not (deferrable[expected] and all(following)):
                        break
                    expected += 1
                assert after_deferrals(native, deferrable, window) == expected


def test_the_first_token_spends_the_probability_of_a_deferral() -> None:
    target, other = TabularTarget(3, seed=4), TabularTarget(3, seed=5)
    drafter = ChainDrafter(other, "exact")
    fly = Fly(threshold=0, window=1)
    setup = Setup(target, drafter, fly, [0, 2], gamma=2, sampling=SAMPLED)
    p = SAMPLED.probs(target.logits([0, 2])).double()
    h = torch.zeros_like(p)
    for text, mass in output_distribution(setup).items():
        h[text[0]] += mass
    q = SAMPLED.probs(other.logits([0, 2])).double()
    deferred = 0.0
    for token in range(3):
        next_p = SAMPLED.probs(target.logits([0, 2, token])).double()
        next_q = SAMPLED.probs(other.logits([0, 2, token])).double()
        deferred += float((q - p)[token].clamp(min=0) * next_p.minimum(next_q).sum())
    assert deferred > 0.01
    assert Budget(1).spent(h, p) == pytest.approx(deferred, abs=1e-12)


def test_at_temperature_0_the_entropy_is_that_before_the_point_mass() -> None:
    unsure, sure = torch.tensor([0.4, 0.35, 0.25]), torch.tensor([0.98, 0.01, 0.01])
    draft, chance = Draft.chain([1, 0]), SampledChance.seeded(0)
    for first, kept in ((unsure, (0, 1)), (sure, ())):
        scores = Scores(torch.stack([first, unsure, unsure]).log(), Sampling())
        assert Fly().verify(draft, scores, chance).accepted == kept
