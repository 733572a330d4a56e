"""What drafting would bring on another machine: its times, and from which alpha it pays."""

from dataclasses import dataclass
from typing import final

from outrider.extras.theory.draft_costs import Drafting
from outrider.extras.theory.roofline import Place, pass_seconds
from outrider.extras.theory.shapes import Shape
from outrider.theory import expected_tokens

STEPS = 60
"""The halvings of the interval that an alpha is searched in, which leave less than 1e-17 of it."""


@final
@dataclass(frozen=True, slots=True)
class Forecast:
    """The predicted times of a drafter's rounds, in seconds.

    gamma: the depth of a draft. nodes: its tokens.
    plain: of a pass for one token. draft: of a draft. verify: of the pass that scores it.
    """

    drafter: str
    gamma: int
    nodes: int
    plain: float
    draft: float
    verify: float

    @property
    def cost(self) -> float:
        """Returns the time of a round in passes for one token."""
        return (self.draft + self.verify) / self.plain

    @property
    def pays_from(self) -> float | None:
        """Returns the alpha from which on a round gives more than it costs; None if none does.

        Of a tree alpha is the probability that one of a node's children is accepted.
        """
        return smallest_alpha(self.cost, self.gamma)

    def speedup(self, tokens: float) -> float:
        """Returns the speedup over plain decoding, for a mean number of tokens a round."""
        return tokens / self.cost


def forecast(
    target: Shape, drafting: Drafting, place: Place, gamma: int, nodes: int | None = None
) -> Forecast:
    """Returns the predicted times of a drafter.

    nodes: those of a tree; None for a chain. At least gamma.
    """
    size = max(gamma, nodes or gamma)
    return Forecast(
        drafter=drafting.name,
        gamma=gamma,
        nodes=size,
        plain=pass_seconds(target, place, 1),
        draft=drafting.seconds(place, gamma, size),
        verify=pass_seconds(target, place, size + 1),
    )


def smallest_alpha(cost: float, gamma: int) -> float | None:
    """Returns the alpha whose expected tokens of a round (Leviathan et al., Equation 1) are `cost`.

    None if even gamma + 1 tokens are too few, and 0 if one token is enough.
    """
    if gamma + 1 <= cost:
        return None
    low, high = 0.0, 1.0
    if cost <= 1:
        return low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, gamma) < cost else (low, middle)
    return high
