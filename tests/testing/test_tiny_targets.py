"""The tiny target is as described."""

import torch

from outrider import Draft
from outrider.testing.tiny_targets import tiny_target


def test_the_tiny_target_is_the_same_every_time_and_far_from_uniform() -> None:
    state = torch.get_rng_state()
    one, two = (tiny_target(4).open([0, 1]).score(Draft())[0] for _ in range(2))
    assert torch.equal(one, two)
    assert one.softmax(-1).max() > 0.3
    assert torch.equal(state, torch.get_rng_state())
