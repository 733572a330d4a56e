"""What rounding may move in or out of a truncated distribution is known beforehand."""

import numpy as np
import pytest
import torch

from outrider.contract.sampling import Sampling
from outrider.extras.audit.rounding import kept


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.7, top_k=5, top_p=0.9),
        Sampling(temperature=1.0, top_k=3),
        Sampling(temperature=1.0, top_p=0.8),
        Sampling(temperature=0.5, min_p=0.05),
        Sampling(temperature=1.0, top_k=20, top_p=0.95, min_p=0.02),
    ],
)
@pytest.mark.parametrize("step", [0.0, 0.03, 0.125])
def test_rounding_moves_no_token_that_is_kept_or_dropped_in_any_case(
    sampling: Sampling, step: float
) -> None:
    """Logits stand in steps, as those of bfloat16, whose standard deviation is step / sqrt(12)."""
    draws, open_mass = np.random.default_rng(0), 0.0
    for size in (8, 8, 8, 64, 1000) * 8:
        logits = draws.normal(size=(4, size)) * draws.uniform(0.3, 3)
        served = np.round(logits / step) * step if step else logits
        sure, maybe = kept(torch.tensor(logits), sampling, step / 12**0.5)
        found = sampling.probs(torch.tensor(served)).numpy() > 0
        assert not (sure & ~found).any() and not (found & ~maybe).any()
        assert sure.any(-1).all()
        open_mass += float((sampling.probs(torch.tensor(logits)).numpy() * ~sure).sum() / 4 / 40)
    assert open_mass <= (0.6 if step else 0)
