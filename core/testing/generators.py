"""The global random generators, which no part may touch: all chance goes through `Chance`."""

import random
from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")


def played_twice(play: Callable[[], T]) -> tuple[T, T]:
    """Returns two results of `play`, for which the global generators have other seeds.

    Raises AssertionError if one of them was moved.
    """
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        random.seed(seed)
        before = (torch.get_rng_state(), random.getstate())
        results.append(play())
        assert torch.equal(before[0], torch.get_rng_state()), "moved torch's global generator"
        assert before[1] == random.getstate(), "moved Python's global generator"
    return results[0], results[1]
