"""What a run allows each of its texts, and what a text shows its drafter."""

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from scipy.stats import binom

from outrider import Chance, Sampling
from outrider.decoding.run import ActiveText, Run, begin_text
from outrider.drafters.none import NoDraft
from outrider.targets.tabular import TabularTarget
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
