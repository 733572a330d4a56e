"""A drafter's tokens are mapped to the target's and back, and no others are written."""

import torch

from outrider.drafters.parts.networks.vocabulary import Vocabulary, count_tokens, frequent


def test_ids_survive_a_round_trip() -> None:
    some = Vocabulary(6, torch.tensor([1, 2, 5]))
    assert len(some) == 3
    assert some.knows(torch.tensor([0, 1, 5])).tolist() == [False, True, True]
    assert some.numbers(torch.tensor([5, 1])).tolist() == [2, 0]
    assert some.rows(torch.eye(6)).argmax(-1).tolist() == [1, 2, 5]
    full = some.spread(torch.tensor([[1.0, 2.0, 3.0]]))
    assert full.tolist() == [[-torch.inf, 1.0, 2.0, -torch.inf, -torch.inf, 3.0]]


def test_a_full_vocabulary_keeps_all_ids() -> None:
    every = Vocabulary(4)
    logits = torch.rand(2, 4)
    assert len(every) == 4
    assert every.spread(logits) is logits
    assert every.knows(torch.tensor([0, 3])).all()
    assert every.numbers(torch.tensor([3])).tolist() == [3]
    assert every.rows(torch.rand(6, 2)).shape == (4, 2)  # a padded matrix


def test_the_most_frequent_are_known() -> None:
    vocabulary = frequent(count_tokens([[4, 4, 2], [2, 4, 1]], 6), count=3)
    assert vocabulary.ids.tolist() == [1, 2, 4]
    assert frequent(count_tokens([[0]], 6), count=6).ids is None
    tied = frequent(count_tokens([[5, 3]], 6), count=3)
    assert tied.ids.tolist() == [0, 3, 5]
