"""Uniform guesses keep the contract, and are uniform."""

import torch
from tiny.pens import new_pen

from outrider import Context, Sampling, Tokens
from outrider.drafters.random import Random


def test_the_distribution_is_uniform() -> None:
    pen = new_pen(sampling=Sampling(temperature=0.7), vocab_size=8)
    Random().propose(Context(Tokens([0])), pen)
    for probs in pen.sheet.finish().probs:
        torch.testing.assert_close(probs, torch.full((8,), 1 / 8, dtype=torch.float64))
