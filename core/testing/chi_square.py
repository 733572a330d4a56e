"""Chi-square: how likely it is that counts stray so far from what they should be."""

import torch


def chi_square(counts: torch.Tensor, probs: torch.Tensor) -> float:
    """Returns the probability that counts of `probs` stray this far (Pearson's chi-square)."""
    total = float(counts.sum())
    if total == 0:
        return 1.0
    expected = probs.double() * total
    statistic = ((counts.double() - expected) ** 2 / expected).sum()
    freedom = torch.tensor((len(counts) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))
