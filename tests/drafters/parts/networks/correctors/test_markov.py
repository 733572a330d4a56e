"""Markov: the published formula."""

import torch

from outrider.drafters.parts.networks.correctors.corrector import Backbone, Block, CorrectorConfig
from outrider.drafters.parts.networks.vocabulary import Vocabulary


def test_a_place_gets_the_row_of_the_token_before_it() -> None:
    backbone = Backbone(4, 3, Vocabulary(7, torch.tensor([1, 3, 4])), torch.zeros(7, 4))
    corrector = CorrectorConfig("markov", rank=2).make(backbone)
    first, second = (torch.randn(7, 2), torch.randn(3, 2))
    corrector.load_state_dict({"markov_w1.weight": first, "markov_w2.weight": second})
    block = Block(torch.randn(1, 3, 4), torch.randn(1, 3, 3), torch.randn(1, 4))
    logits = corrector(block)(torch.tensor([[6, 1, 3]]), 0)
    bias = first @ second.T
    torch.testing.assert_close(logits[0] - block.logits[0], bias[[6, 1, 3]])
