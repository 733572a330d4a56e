"""Profile: acceptance by depth of the draft, and by rank among siblings."""

from collections.abc import Callable, Sequence

from outrider.lab.measurement import Decoding, Measurement, Step
from outrider.lab.overlap import Overlap


def by_depth(measurements: Sequence[Measurement], gamma: int) -> dict[str, list[float | None]]:
    """Returns the figures of `outrider.lab.summary.Row.depths`."""
    overlaps = [m.overlap for m in measurements if m.overlap is not None]
    texts = [m.decoding for m in measurements if m.decoding is not None]
    figures: dict[str, list[float | None]] = {}
    if overlaps:
        figures["alpha_at"] = _ratios(
            _sums(overlaps, lambda overlap: overlap.beta, gamma),
            _sums(overlaps, lambda overlap: overlap.reached, gamma),
        )
        accepted = _sums(overlaps, lambda overlap: overlap.accepted, gamma)
        rounds = _sums(overlaps, lambda overlap: overlap.rounds, gamma)
        tokens = [a + r for a, r in zip(accepted, rounds, strict=True)]
        figures["tokens_at"] = _ratios(tokens, rounds)
    if texts:
        steps = [step for text in texts for step in text.steps]
        # Depths past a stop or past the end of the draft were not tested: they are censored.
        tested = [sum(step.tested > depth for step in steps) for depth in range(gamma)]
        reached = [sum(step.accepted > depth for step in steps) for depth in range(gamma)]
        figures["tested_at"] = _ratios(reached, tested)
        figures["tokens_tested_at"] = expected_tokens(steps, gamma)
    return figures


def by_rank(texts: Sequence[Decoding]) -> list[float] | None:
    """Returns the figures of `outrider.lab.summary.Row.ranks`."""
    steps = [step for text in texts for step in text.steps]
    widest = max((width for step in steps for width in step.siblings), default=0)
    if widest < 2:
        return None
    offered = [
        sum(width > rank for step in steps for width in step.siblings) for rank in range(widest)
    ]
    accepted = [sum(step.ranks.count(rank) for step in steps) for rank in range(widest)]
    return [count / of for count, of in zip(accepted, offered, strict=True)]


def expected_tokens(steps: Sequence[Step], gamma: int) -> list[float | None]:
    """Returns the expected tokens of a round at each gamma; rounds that a stop cut are censored.

    This is the product-limit estimate (Kaplan and Meier 1958) of how long drafts survive. A draft
    that is shorter than gamma by itself has ended; one that a stop or the length limit cut would
    have gone on.
    """
    tokens, survival = 1.0, 1.0
    by_gamma: list[float | None] = []
    for depth in range(gamma):
        survived = sum(step.accepted > depth for step in steps)
        ended = sum(
            step.accepted == depth and (step.stop is None or step.tested > depth) for step in steps
        )
        survival *= survived / (survived + ended) if survived + ended else 0.0
        tokens += survival
        by_gamma.append(tokens)
    return by_gamma


def _sums(
    overlaps: Sequence[Overlap], field: Callable[[Overlap], Sequence[float]], gamma: int
) -> list[float]:
    return [sum(field(overlap)[depth] for overlap in overlaps) for depth in range(gamma)]


def _ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float | None]:
    """Returns the ratios; None where the denominator is 0."""
    pairs = zip(numerators, denominators, strict=True)
    return [numerator / denominator if denominator else None for numerator, denominator in pairs]
