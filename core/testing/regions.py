"""Regions: the noise of races that is still possible after some of them, for exact proofs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

ROUNDING = 1e-15
"""A vertex this close to a cutting plane lies on it."""

Simplex = tuple[float, tuple[tuple[float, ...], ...]]
"""A share of all noise, and the vertices of the simplex that it fills."""


@final
@dataclass(frozen=True, slots=True)
class Region:
    """The noise that is still possible after some races, for exact proofs on few tokens.

    A race depends only on the proportions of the arrival times, and these are uniform on the
    simplex. The part where token i wins is convex, so all probabilities are volumes.
    """

    simplices: tuple[Simplex, ...]

    @classmethod
    def whole(cls, vocab: int) -> "Region":
        """Returns the region of all noise for a vocabulary."""
        corners = tuple(
            tuple(float(row == column) for column in range(vocab)) for row in range(vocab)
        )
        return cls(((1.0, corners),))

    @property
    def share(self) -> float:
        """Returns the probability of the region."""
        return sum(share for share, _ in self.simplices)

    def won_by(self, token: int, probs: Sequence[float]) -> "Region":
        """Returns the part where `token` wins a race for `probs`."""
        if probs[token] <= 0:
            return Region(())
        simplices = self.simplices
        for other in range(len(probs)):
            if other != token and probs[other] > 0:
                simplices = tuple(
                    part
                    for simplex in simplices
                    for part in _slower(simplex, other, token, probs[other] / probs[token])
                )
        return Region(simplices)


def _slower(simplex: Simplex, other: int, token: int, rate: float) -> Iterator[Simplex]:
    """Yields the parts of a simplex where E(other) >= rate E(token)."""
    share, corners = simplex
    heights = [corner[other] - rate * corner[token] for corner in corners]
    scale = ROUNDING * max(1.0, rate)
    high, low = max(heights), min(heights)
    if low >= -scale:
        yield simplex
    elif high > scale:
        # Cut the edge between the highest and the lowest corner where it meets the plane. The new
        # corner in the place of either gives two simplices, whose volumes are as the edge's parts.
        up, down = heights.index(high), heights.index(low)
        cut = high / (high - low)
        middle = tuple(a + cut * (b - a) for a, b in zip(corners[up], corners[down], strict=True))
        for replaced, part in ((down, cut), (up, 1 - cut)):
            smaller = tuple(middle if at == replaced else corners[at] for at in range(len(corners)))
            yield from _slower((share * part, smaller), other, token, rate)
