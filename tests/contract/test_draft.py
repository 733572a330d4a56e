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
