"""At temperature 0 a tree is judged at once, as recursive rejection judges it."""

import itertools
from functools import partial

import pytest
import torch
from waits import counted

from outrider import Draft, Sampling
from outrider.contract.chance import SampledChance
from outrider.contract.verifier import Scores
from outrider.targets.tabular import TabularTarget
from outrider.verifiers.recursive import descend, first
from tests.devices import FAR, accelerator

GREEDY = Sampling()
PARENTS = (-1, -1, 0, 0, 1, 2)


def test_every_greedy_tree_has_the_path_of_recursive_rejection() -> None:
    """All tokens of a tree of six nodes, repeated siblings included."""
    tree = Draft((0, 1, 2, 1, 2, 0), (-1, 0, 1, -1, 3, 0), (None,) * 6)
    logits = TabularTarget(3).open([0, 1]).score(tree)
    rows = torch.cat([logits, logits])[:7]
    ended = set()
    for tokens in itertools.product(range(3), repeat=6):
        draft = Draft(tokens, PARENTS, (None,) * 6)
        scores = Scores(rows, GREEDY)
        at_once, in_turn = (
            descend(draft, scores, SampledChance.seeded(0), *choice)
            for choice in ((), (partial(first),))
        )
        assert at_once == in_turn
        ended.add(len(at_once.accepted))
    assert ended == {0, 1, 2, 3}


@pytest.mark.device
def test_a_greedy_tree_is_waited_for_once() -> None:
    draft = Draft((0, 1, 2, 0, 1, 2), PARENTS, (None,) * 6)
    with accelerator():
        logits = torch.randn(7, 40, generator=torch.Generator().manual_seed(0)).to(FAR)
        with counted(FAR.type) as waits:
            descend(draft, Scores(logits, GREEDY), SampledChance.seeded(0))
        assert waits.waits == 1
