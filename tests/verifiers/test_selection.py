"""The classes of tokens that a selection is worked out for."""

import torch

from outrider.verifiers.selection import classes_apart


def test_without_replacement_tokens_of_one_ratio_are_classes_of_their_own() -> None:
    q = torch.tensor([0.4, 0.3, 0.2, 0.1])
    assert sorted(classes_apart(q, q, 4).tolist()) == [0, 1, 2, 3]


def test_the_two_likeliest_tokens_have_classes_of_their_own() -> None:
    q = torch.linspace(1.0, 3.0, 30).softmax(-1)
    classes = classes_apart(q.roll(1), q, 6).tolist()
    assert sorted(set(classes)) == list(range(6))
    for likeliest in q.topk(2).indices.tolist():
        assert classes.count(classes[likeliest]) == 1
