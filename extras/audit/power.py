"""What an audit would have found: a fault of a known size, planted in the texts that it read."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from outrider.extras.audit.client import Token

RATES = (0.02, 0.04, 0.08, 0.16, 0.32)
"""The chances of a token being replaced."""

CONTROL = RATES.index(0.16)
"""The one that has to be found before nothing else is said to be there to find."""

TEXTS = 1000
"""The texts that the least fault is told for."""

LEFT = 1.28
"""How many standard deviations below its mean the evidence is in one audit of ten."""

ENOUGH = 20
"""The texts from which on the least fault is told."""


@final
class Power:
    """Evidence against texts in which tokens are replaced, by how often they are.

    What takes the place of a token depends on the one before: the first that was seen after that.
    So the total variation of a token's distribution is the share of tokens that change.

    make: returns what gathers evidence, as its `growth`.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._played = [make() for _ in RATES]
        self._others: dict[Token | None, Token] = {}
        self._draws = np.random.default_rng(0)
        self._found: list[np.ndarray] = []
        self._changed, self._tokens = np.zeros(len(RATES)), 0

    @property
    def growth(self) -> float:
        """Returns the evidence against the texts of the control."""
        return float(self._found[-1][CONTROL]) if self._found else 0.0

    def planted(
        self, tokens: Sequence[Token], may: Callable[[int, Token], bool] = lambda place, token: True
    ) -> Iterator[tuple[Any, list[Token]]]:
        """Yields what gathers evidence, each with the text to gather it from.

        may: whether a token may stand at a place.
        """
        if len(self._found) == TEXTS:
            return
        others = []
        for place, token in enumerate(tokens):
            other = self._others.setdefault(tokens[place - 1] if place else None, token)
            others.append(other if may(place, other) else token)
        uniforms = self._draws.random(len(tokens))
        for index, (rate, played) in enumerate(zip(RATES, self._played, strict=True)):
            drawn = zip(tokens, others, uniforms, strict=True)
            planted = [other if uniform < rate else token for token, other, uniform in drawn]
            self._changed[index] += sum(a != b for a, b in zip(planted, tokens, strict=True))
            yield played, planted
        self._tokens += len(tokens)
        self._found.append(np.array([played.growth for played in self._played]))

    def least(self, needed: float) -> float | None:
        """Returns the least total variation that would have been found, in nine audits of ten."""
        count = len(self._found)
        if count < ENOUGH:
            return None
        found = np.array(self._found)
        steps = np.diff(found, axis=0, prepend=0)
        means = found[-1] * TEXTS / count - LEFT * steps.std(0) * math.sqrt(TEXTS)
        sizes = self._changed / max(self._tokens, 1)
        pairs = zip(sizes, means, strict=True)
        return min(
            (float(size) for size, mean in pairs if size > 0 and mean >= needed), default=None
        )
