"""Scores hold the distributions of context and nodes in that order."""

import torch

from outrider import Sampling, Scores
from outrider.verifiers.token import Token


def test_rows_are_after_the_context_and_after_each_node() -> None:
    logits = torch.randn(3, 5)
    scores = Scores(logits, Sampling(temperature=1.0))
    torch.testing.assert_close(scores.after(-1), logits[0].softmax(-1))
    torch.testing.assert_close(scores.after(1), logits[2].softmax(-1))
    assert scores.probs is scores.probs  # made once


def test_the_ceiling_of_a_lossless_rule_is_the_distribution() -> None:
    scores = Scores(torch.randn(2, 5), Sampling(temperature=1.0))
    assert torch.equal(Token().ceiling(scores), scores.probs)
