"""Chi-square: how likely counts are to stray this far from what is expected."""

import torch

SIGNIFICANCE = 1e-6
"""A p-value below this fails a check: the chance of failing a right part, were seeds not fixed."""


def chi_square(counts: torch.Tensor, probs: torch.Tensor) -> float:
    """Returns the p-value of counts under `probs` (Pearson's chi-square test)."""
    total = float(counts.sum())
    if total == 0:
        return 1.0
    expected = probs.double() * total
    statistic = ((counts.double() - expected) ** 2 / expected).sum()
    freedom = torch.tensor((len(counts) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))
