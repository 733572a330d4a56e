"""Evidence, and what it would have been of a fault of a known size, planted in the same texts."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, final

import numpy as np

from outrider.extras.audit.client import Token

RATES = (0.0, 0.02, 0.04, 0.08, 0.16, 0.32)
"""The chances of a token being replaced; the first are the texts as they are."""

CONTROL = RATES.index(0.16)
"""The one that has to be found before nothing else is said to be there to find."""

MOST = math.log(1000)
"""The most evidence that one text is taken for, however odd it is."""

TEXTS, ENOUGH = 1000, 8
"""The texts that the least fault is told for, and from which on it is told."""

LEFT = 1.28
"""How many standard deviations below its mean the evidence is in one audit of ten."""


@final
class Evidence:
    """Plays texts as they are, and with tokens replaced, by how often they are.

    What takes the place of a token is one of those that look right there, which one depends on the
    token before. So the total variation of a token's distribution is the share that changes.

    make: returns what gathers evidence, as its `growth`.
    growths: the logarithms of the evidence by now, by how often tokens were replaced.
    texts: how many were played.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._played = [make() for _ in RATES]
        self._draws = np.random.default_rng(0)
        self._choices: defaultdict[Token | None, float] = defaultdict(self._draws.random)
        self._first: Sequence[Token] = ()
        self._gains: list[np.ndarray] = []
        self._changed, self._tokens = np.zeros(len(RATES)), 0
        self.growths: Any = np.zeros(len(RATES))
        self.texts: int = 0

    def see(
        self,
        tokens: Sequence[Token],
        alike: Sequence[Sequence[Token]],
        play: Callable[[Any, tuple[Token, ...]], None],
    ) -> None:
        """Plays a text.

        alike: the tokens that look right at each place; none if it is not known.
        play: shows one that gathers evidence the tokens.
        """
        self._first = self._first or tokens
        others = []
        for last, right in zip_longest((None, *tokens)[: len(tokens)], alike[: len(tokens)]):
            names = right or self._first
            others.append(names[int(self._choices[last] * len(names))])
        uniforms, gains = self._draws.random(len(tokens)), np.zeros(len(RATES))
        for index, rate in enumerate(RATES if self.texts < TEXTS else RATES[:1]):
            drawn = zip(tokens, others, uniforms, strict=True)
            changed = tuple(other if uniform < rate else token for token, other, uniform in drawn)
            self._changed[index] += sum(a != b for a, b in zip(changed, tokens, strict=True))
            before = self._played[index].growth
            play(self._played[index], changed)
            gains[index] = min(self._played[index].growth - before, MOST)
        self.growths += gains
        if self.texts < TEXTS:
            self._gains.append(gains)
            self._tokens += len(tokens)
        self.texts += 1

    def least(self, needed: float) -> float | None:
        """Returns the least total variation that would have been found, in nine audits of ten."""
        if self.texts < ENOUGH:
            return None
        gains, sizes = np.array(self._gains), self._changed / max(self._tokens, 1)
        found = gains.mean(0) * TEXTS - LEFT * gains.std(0) * math.sqrt(TEXTS)
        return min((float(size) for size in sizes[found >= needed] if size > 0), default=None)
