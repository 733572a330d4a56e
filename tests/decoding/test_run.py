"""Texts of a run make random decisions of their own."""

import itertools
import operator
from typing import Any

import torch
from scipy.stats import binom

from outrider import Sampling
from outrider.decoding.run import Run, begin_text
from outrider.drafters.none import NoDraft
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.token import Token


def test_each_part_of_each_text_draws_its_own() -> None:
    """Parts, numbers and seeds make random decisions that do not depend on each other."""
    target, probs, draws = TabularTarget(6), torch.full((4000,), 0.5), {}
    for seed, number in ((1, 0), (1, 1), (2, 0)):
        run = Run(target=target, verifier=Token(), sampling=Sampling(seed=seed))
        parts: Any = {"policy": None, "chance": None, "constraint": None}
        text = begin_text(run, [0], target.open([0]), NoDraft(), number=number, **parts)
        draws[seed, number, "drafter"] = text.drafter_chance.coins(probs)
        draws[seed, number, "target"] = text.chance.coins(probs)
    low, high = binom.interval(1 - 1e-9, len(probs), 0.5)
    for one, other in itertools.combinations(draws.values(), 2):
        assert low <= sum(map(operator.eq, one, other)) <= high
