"""The global random generators, which no part may touch: all chance goes through `Chance`."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def global_generators(seed: int) -> Iterator[None]:
    """Seeds them, and raises AssertionError at the end if one of them was moved."""
    torch.manual_seed(seed)
    random.seed(seed)
    before = (torch.get_rng_state(), random.getstate())
    yield
    assert torch.equal(before[0], torch.get_rng_state()), "moved torch's global generator"
    assert before[1] == random.getstate(), "moved Python's global generator"
