"""How likely counts are to stray this far from what is expected."""

from collections import Counter
from collections.abc import Iterable, Mapping

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


def assert_sampled(
    texts: Iterable[tuple[int, ...]], exact: Mapping[tuple[int, ...], float]
) -> None:
    """Raises AssertionError if sampled texts are too far from their exact distribution.

    Texts of which fewer than five are expected count together, as the approximation needs it.
    """
    counts = Counter(texts)
    total = counts.total()
    impossible = [text for text in counts if exact.get(text, 0) <= 0]
    assert not impossible, f"sampled {impossible[0]}, which is impossible by enumeration"
    rare = {text for text, p in exact.items() if p * total < 5}
    groups = [{text} for text in exact.keys() - rare] + ([rare] if rare else [])
    expected = torch.tensor([sum(exact[text] for text in sorted(group)) for group in groups])
    seen = torch.tensor([float(sum(counts[text] for text in group)) for group in groups])
    value = chi_square(seen[expected > 0], expected[expected > 0])
    assert value > SIGNIFICANCE, (
        f"{total} sampled texts are far from the distribution by enumeration (p-value {value:.0e})"
    )
