"""The cost model weighs what a token gains against what it costs at a length and in a batch."""

import itertools
import random
from typing import Any

import torch

from outrider import Draft
from outrider.policies.cost_model import CostModel


def test_the_cost_model_chooses_by_length_and_batch(outcome: Any) -> None:
    """Against the times that it was shown: all tokens are accepted with probability .8."""
    hits = random.Random(1)
    policy = CostModel(alpha=0.8, weight=1e9)
    policy.reset()

    def seconds(k: int, length: int, texts: int) -> tuple[float, float]:
        return 1 / texts + 0.05 * (k + 1) + 0.001 * length, k * (0.15 + 0.00001 * length)

    for number in range(60):
        length, texts = hits.choice((10, 100, 1000)), hits.choice((1, 4))
        policy.notice(length, texts)
        k = number % 7
        score, draft = seconds(k, length, texts)
        policy.more(Draft((0,) * k, tuple(range(-1, k - 1)), (None,) * k, (None,) * k))
        policy.observe(outcome(k, 0, score=score, draft=draft / max(1, k)))
    chosen = {}
    for length, texts in itertools.product((10, 400, 2000), (1, 8)):
        policy.notice(length, texts)
        rates = [
            sum(0.8**depth for depth in range(k + 1)) / sum(seconds(k, length, texts))
            for k in range(7)
        ]
        chosen[length, texts] = policy.depth(6)
        assert chosen[length, texts] == rates.index(max(rates))
    assert chosen[2000, 1] > chosen[10, 1] > chosen[10, 8]


def test_the_cost_model_continues_while_a_token_is_worth_its_cost(outcome: Any) -> None:
    policy = CostModel(alpha=0.5, weight=1e9)
    policy.reset()
    for k in (2, 2, 4):
        policy.more(Draft((0,) * k, tuple(range(-1, k - 1)), (None,) * k, (None,) * k))
        policy.observe(outcome(k, 0, score=1.0, draft=0.21))
    # The rates are 1, 1.24, 1.23 and 1.15: a token of .21 seconds has to gain .26.
    assert policy.depth(3) == 1
    for q, goes_on in ((0.6, True), (0.4, False)):
        logits = torch.tensor([q, 1 - q]).log()
        draft = Draft((0,), (-1,), (None,), (logits,))
        assert policy.more(draft) == goes_on  # q times .5 for the next token
        # The other branch of a tree is better.
        tree = Draft((0, 1), (-1, -1), (None, None), (logits, logits))
        assert policy.more(tree)
