"""The tiny targets are as described."""

import torch

from outrider import Draft
from outrider.drafters.small_lm import SmallLM
from outrider.targets.transformers import TransformersTarget
from outrider.testing.tiny_targets import VOCAB_SIZE, bound_target, tiny_target


def test_the_tiny_target_is_the_same_every_time_and_far_from_uniform() -> None:
    state = torch.get_rng_state()
    one, two = (tiny_target(4).open([0, 1]).score(Draft())[0] for _ in range(2))
    assert torch.equal(one, two)
    assert one.softmax(-1).max() > 0.3
    assert torch.equal(state, torch.get_rng_state())


def test_a_drafter_gets_a_target_that_offers_its_needs() -> None:
    target = bound_target(SmallLM(layers=2))
    assert isinstance(target, TransformersTarget)
    assert target.vocab_size == VOCAB_SIZE
