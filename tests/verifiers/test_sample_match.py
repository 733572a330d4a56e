"""The naive rule follows the target's own draws through any tree."""

import pytest
import torch

from outrider import Chance, Draft, Sampling, Scores
from outrider.testing.exact import distribution_of
from outrider.verifiers.sample_match import SampleMatch

P = torch.tensor([0.1, 0.6, 0.3], dtype=torch.float64)


def test_a_token_is_accepted_with_probability_p() -> None:
    scores = Scores(torch.stack([P] * 4).log(), Sampling(temperature=1.0))
    tree = Draft((1, 2, 1), (-1, -1, 0), (None,) * 3)

    def play(chance: Chance) -> tuple[int, ...]:
        return SampleMatch().verify(tree, scores, chance).accepted

    probs = distribution_of(play)
    assert probs[()] == pytest.approx(0.1)
    assert probs[(1,)] == pytest.approx(0.3)
    assert probs[(0,)] == pytest.approx(0.6 * 0.4)
    assert probs[(0, 2)] == pytest.approx(0.6 * 0.6)
