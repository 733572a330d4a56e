"""Uniform guesses keep the contract, and are uniform."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tiny.conformance import parametrize_with_shapes

from outrider import Context, Pen, SampledChance, Sampling, Tokens
from outrider.contract.sheet import Sheet
from outrider.drafters.random import Random
from outrider.testing import parametrize_with_checks


@parametrize_with_checks([Random])
def test_conformance(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


@parametrize_with_shapes([partial(Random, tree=tree) for tree in ("2x2", "iid:2x2")])
def test_shapes_keep_the_contract(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make)


def test_the_distribution_is_uniform() -> None:
    pen = Pen(
        Sheet(
            sampling=Sampling(temperature=0.7),
            chance=SampledChance.seeded(0),
            vocab_size=8,
            gamma=3,
        )
    )
    Random().propose(Context(Tokens([0])), pen)
    for probs in pen.sheet.finish().probs:
        assert probs is not None
        torch.testing.assert_close(probs, torch.full((8,), 1 / 8, dtype=torch.float64))


def test_paths_stay_equal_where_the_budget_ends_in_the_middle(run: Any) -> None:
    """The rule takes equal paths: with two of them a budget of 5 nodes is used up to the fourth."""
    settings = ("target=tabular", "prompt=[0,1]", "sampling=standard", "max_new_tokens=12")
    tree = ("drafter=random", "drafter.tree=paths:2", "verifier=multi_path_block")
    status, _, err = run("generate", *settings, *tree)
    assert status == 0, err
