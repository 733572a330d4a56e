"""What a run allows each of its texts, and what a text shows its drafter."""

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from scipy.stats import binom

from outrider import Chance, Sampling
from outrider.decoding.run import ActiveText, Run, begin_text
from outrider.drafters.none import NoDraft
from outrider.targets.tabular import TabularTarget
from outrider.testing.enumerated import EnumeratedChance
from outrider.verifiers.token import Token


def begun(
    target: TabularTarget,
    prompt: Sequence[int],
    chance: Chance | None = None,
    number: int = 0,
    **options: Any,
) -> ActiveText:
    run = Run(target=target, verifier=Token(), **options)
    return begin_text(
        run,
        prompt,
        target.open(prompt),
        NoDraft(),
        policy=None,
        chance=chance,
        number=number,
        constraint=None,
    )


def test_a_chain_may_have_as_many_nodes_as_gamma() -> None:
    target = TabularTarget(6)
    assert Run(target=target, verifier=Token(), gamma=3).nodes == 3
    assert Run(target=target, verifier=Token(), gamma=3, budget=8).nodes == 8


@pytest.mark.parametrize(
    ("max_length", "limit", "reason"),
    [(None, 7, "max_new_tokens"), (7, 7, "max_new_tokens"), (6, 6, "max_length")],
)
def test_the_shorter_of_two_limits_ends_a_text(
    max_length: int | None, limit: int, reason: str
) -> None:
    target = TabularTarget(6)
    target.max_length = max_length
    text = begun(target, [0, 1], max_new_tokens=5)
    assert (text.limit, text.limit_reason) == (limit, reason)


def test_the_source_of_an_encoder_does_not_count_towards_the_limit() -> None:
    text = begun(TabularTarget(6, encoder=True), [3, 1, 4], max_new_tokens=5)
    assert (text.ids, text.limit) == ([0], 6)
    assert text.source == [3, 1, 4]
    assert text.context.source == [3, 1, 4]


def test_a_context_does_not_change_as_the_text_grows() -> None:
    text = begun(TabularTarget(6), [0, 1])
    context = text.context
    text.ids.append(5)
    assert context.tokens == [0, 1]
    assert text.context.tokens == [0, 1, 5]


def test_each_part_of_each_text_draws_its_own() -> None:
    """Parts, numbers and seeds make random decisions that do not depend on each other."""
    probs, draws = torch.full((4000,), 0.5), {}
    for seed, number in ((1, 0), (1, 1), (2, 0)):
        text = begun(TabularTarget(6), [0], number=number, sampling=Sampling(seed=seed))
        draws[seed, number, "drafter"] = text.drafter_chance.coins(probs)
        draws[seed, number, "target"] = text.chance.coins(probs)
    low, high = binom.interval(1 - 1e-9, len(probs), 0.5)
    for one, other in itertools.combinations(draws.values(), 2):
        assert low <= sum(map(operator.eq, one, other)) <= high


def test_one_chance_serves_all_parts_of_an_enumeration() -> None:
    chance = EnumeratedChance([])
    text = begun(TabularTarget(6), [0], chance=chance)
    assert text.drafter_chance is text.chance is chance
