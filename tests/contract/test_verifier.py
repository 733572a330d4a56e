"""Scores hold the distributions of context and nodes in that order."""

import torch

from outrider import Sampling, Scores
from outrider.verifiers.token import Token


def test_the_ceiling_of_a_lossless_rule_is_the_distribution() -> None:
    scores = Scores(torch.randn(2, 5), Sampling(temperature=1.0))
    assert torch.equal(Token().ceiling(scores), scores.probs)
