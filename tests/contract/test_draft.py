"""A draft knows its shape and its distributions."""

import torch

from outrider import Draft
from outrider.contract.draft import ROOT

PROBS = torch.tensor([0.5, 0.25, 0.25])


def test_a_chain() -> None:
    chain = Draft((2, 0), (ROOT, 0), (PROBS, None))
    assert chain.is_chain
    assert Draft().is_chain
    assert chain.distribution(0, PROBS) is PROBS
    assert chain.distribution(1, PROBS).tolist() == [1, 0, 0]


def test_a_tree() -> None:
    tree = Draft((0, 1, 2, 0), (ROOT, ROOT, 1, 0), (None,) * 4)
    assert tree.children(ROOT) == [0, 1]
    assert tree.path(2) == (1, 2)
    assert tree.path(ROOT) == ()


def test_two_trees_side_by_side() -> None:
    both = Draft((0, 1), (ROOT, 0), (None, None)).joined(Draft((2, 0), (ROOT, 0), (None, None)))
    assert both.tokens == (0, 1, 2, 0)
    assert both.parents == (ROOT, 0, ROOT, 2)


def test_paths_share_their_first_tokens() -> None:
    tree, ends = Draft.of_paths([(4, 5), (4, 6), (), (4,), (4, 5)])
    assert tree.tokens == (4, 5, 6)
    assert tree.parents == (ROOT, 0, 0)
    assert ends == [1, 2, ROOT, 0, 1]
