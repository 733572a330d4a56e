"""Profile: acceptance by depth of the draft, and by rank among siblings."""

from collections.abc import Sequence

from outrider.lab.measurement import Decoding, Measurement, Step


def by_depth(every: Sequence[Measurement], gamma: int) -> dict[str, list[float | None]]:
    """Returns the figures of `outrider.lab.summary.Row.depths`."""
    probs = [each.overlap for each in every if each.overlap is not None]
    texts = [each.decoding for each in every if each.decoding is not None]
    found: dict[str, list[float | None]] = {}
    if probs:
        reached, beta, rounds, accepted = (
            [
                sum(getattr(distribution, field)[depth] for distribution in probs)
                for depth in range(gamma)
            ]
            for field in ("reached", "beta", "rounds", "accepted")
        )
        found["alpha_at"] = [_over(b, r) for b, r in zip(beta, reached, strict=True)]
        found["tokens_at"] = [_over(a + r, r) for a, r in zip(accepted, rounds, strict=True)]
    if texts:
        steps = [step for text in texts for step in text.steps]
        # A draft that a stop or its own end cut short was not tested there: it is censored.
        tested = [sum(step.tested > depth for step in steps) for depth in range(gamma)]
        accepted = [sum(step.accepted > depth for step in steps) for depth in range(gamma)]
        found["tested_at"] = [_over(a, t) for a, t in zip(accepted, tested, strict=True)]
        found["tokens_tested_at"] = survival(steps, gamma)
    return found


def by_rank(texts: Sequence[Decoding]) -> list[float] | None:
    """Returns the figures of `outrider.lab.summary.Row.ranks`."""
    steps = [step for text in texts for step in text.steps]
    widest = max((width for step in steps for width in step.siblings), default=0)
    if widest < 2:
        return None
    offered = [
        sum(width > rank for step in steps for width in step.siblings) for rank in range(widest)
    ]
    taken = [sum(step.ranks.count(rank) for step in steps) for rank in range(widest)]
    return [one / of for one, of in zip(taken, offered, strict=True)]


def survival(steps: Sequence[Step], gamma: int) -> list[float | None]:
    """Returns the tokens of a round at each gamma, where a round that a stop cut is censored.

    The product-limit estimate (Kaplan and Meier 1958) of how long drafts survive. A draft that
    ended by itself has ended; one that a stop or the length limit ended would have gone on.
    """
    tokens, alive = 1.0, 1.0
    found: list[float | None] = []
    for depth in range(gamma):
        lived = sum(step.accepted > depth for step in steps)
        ended = sum(
            step.accepted == depth and (step.stop is None or step.tested > depth) for step in steps
        )
        alive *= lived / (lived + ended) if lived + ended else 0.0
        tokens += alive
        found.append(tokens)
    return found


def _over(above: float, below: float) -> float | None:
    return above / below if below else None
