"""Uniform guesses keep the contract, and are uniform."""

from typing import Any

import torch
from tiny.pens import new_pen

from outrider import Context, Sampling, Tokens
from outrider.drafters.random import Random


def test_the_distribution_is_uniform() -> None:
    pen = new_pen(sampling=Sampling(temperature=0.7), vocab_size=8)
    Random().propose(Context(Tokens([0])), pen)
    for probs in pen.sheet.finish().probs:
        torch.testing.assert_close(probs, torch.full((8,), 1 / 8, dtype=torch.float64))


def test_paths_stay_equal_where_the_budget_ends_in_the_middle(run: Any) -> None:
    """The rule takes equal paths: with two of them a budget of 5 nodes is used up to the fourth."""
    settings = ("target=tabular", "prompt=[0,1]", "sampling=standard", "max_new_tokens=12")
    tree = ("drafter=random", "drafter.tree=paths:2", "verifier=multi_path_block")
    run.done("generate", *settings, *tree)
