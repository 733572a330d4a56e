"""Evidence against a distribution that may be looked at after every token, and stopped at any time.

Each test is a gambler's fortune: it begins at 1, and a fair game can't make it grow, except by a
chance of at most 1 / f to ever reach f (Ville's inequality; Ramdas et al. 2210.01948). Tokens are
what is bet on: a bet on a distribution q multiplies the fortune by q(token) / p(token).
"""

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from jaxtyping import Float

from outrider.extras.audit.client import Token
from outrider.extras.audit.rounding import LEAST

STEP, CLASSES = math.log(4), 8
"""Tokens whose probabilities are within a factor of four are of one class; the last one has all
that are less likely."""

PLAUSIBLE = 0.005
"""The least probability of a token that doesn't look wrong."""

WEIGHTS = np.array([8.0, 64.0])
"""How many tokens the expected distribution counts for, in bets on what was written before."""

NEW, DEPTH = 2, 3
"""How many tokens a token is new for: those that a draft may have before the one that is bet on;
and how many a text is expected to share with others of its prompt."""

LOOSER = 4.0
"""How many times the variance of rounding a bet expects at least."""

NONE, TINY = 1e-9, 1e-300
"""Stand for no rounding, since a prior that is as firm learns nothing, and for no probability."""


@final
@dataclass(frozen=True)
class Place:
    """The distribution that a token should be drawn from.

    probs: of cells. One more than there are names stands for all other tokens.
    names: the token of each cell, or None for one that can't be told from others.
    before: the tokens that the text has before it.
    beside: the token that another text of the same batch has at this position, if any.
    noise: the standard deviation of what rounding adds to the logarithms of `probs`.
    """

    probs: Float[np.ndarray, "cells"]
    names: Sequence[Token | None]
    before: tuple[Token, ...] = ()
    beside: Token | None = None
    noise: float = 0.0

    def cell(self, token: Token) -> int:
        """Returns the cell that a token is in."""
        return self.names.index(token) if token in self.names else len(self.probs) - 1

    @cached_property
    def kinds(self) -> list[tuple[Callable[[int], int], Float[np.ndarray, "kinds"]]]:
        """Returns ways to tell tokens apart: the kind of each cell, and how likely each kind is.

        By how likely they are; and whether they are the token just before, any token of the text
        before, one that it has only had since a few tokens, or that of another text.
        """
        before, classes = self.before, class_of(np.log(np.maximum(self.probs, TINY)))
        found = [(classes.__getitem__, np.bincount(classes, self.probs, CLASSES))]
        beside = () if self.beside is None else (self.beside,)
        for tokens in (before[-1:], before, {*before[-NEW:]} - {*before[:-NEW]}, beside):
            cells = {self.cell(token) for token in tokens if token in self.names}
            share = min(float(self.probs[[*cells]].sum()), 1.0)
            found.append((cells.__contains__, np.array([1 - share, share])))
        return found

    @cached_property
    def plausible(self) -> list[Token]:
        """Returns the tokens that are likely enough not to be seen to be wrong."""
        cells = np.flatnonzero(self.probs[: len(self.names)] >= PLAUSIBLE)
        return [name for cell in cells if (name := self.names[int(cell)]) is not None]


def class_of(logprobs: Any) -> Any:
    """Returns the class of a token, or of several, by the logarithm of its probability."""
    return np.clip(np.floor(-np.maximum(logprobs, LEAST) / STEP), 0, CLASSES - 1).astype(int)


Written = tuple[Place, Token]
"""A token that was written, and where."""


class Bet(ABC):
    """A gambler who bets on what was seen before: the Bayes factors of priors of some weights.

    Rounding may be the same each time that something is seen. So what may be expected of it is
    learned, too, by a prior that is as firm as rounding is small.
    """

    def __init__(self) -> None:
        self._exact, self._rounded = np.zeros(len(WEIGHTS)), np.zeros(len(WEIGHTS))

    @property
    def growth(self) -> float:
        """Returns the logarithm of the fortune."""
        return log_mean(np.minimum(self._exact, self._rounded))

    @abstractmethod
    def see(self, prompt: Hashable, text: Sequence[Written]) -> None:
        """Plays the tokens of a text. What is bet on each depends on those before."""

    def _play(self, text: Sequence[Written], likelier: Callable[[np.ndarray], np.ndarray]) -> None:
        """Plays the tokens of a text.

        likelier: returns how many times likelier each is than expected, a row a token, by priors of
            some weights, a row a token.
        """
        firm = np.array([[max(place.noise, NONE) ** -2] for place, _ in text])
        bets = np.log(likelier(np.minimum(WEIGHTS, firm / LOOSER)))
        self._exact += bets.sum(0)
        self._rounded += (bets - np.log(likelier(firm))).sum(0)


@final
class Learned(Bet):
    """Bets on what was written in the same context, by Dirichlet priors.

    length: how many of the newest tokens make the context. None for the prompt and all of them, as
        long as they are few: no two texts agree for long.
    """

    def __init__(self, length: int | None) -> None:
        super().__init__()
        self._length = length
        self._counts: defaultdict[Hashable, Counter[int]] = defaultdict(Counter)

    def see(self, prompt: Hashable, text: Sequence[Written]) -> None:
        seen = np.zeros((2, len(text), 1))
        for at, (place, token) in enumerate(text):
            before, cell = place.before, place.cell(token)
            start = 0 if self._length is None else len(before) - self._length
            if start < 0 or (self._length is None and len(before) > DEPTH):
                continue
            counts = self._counts[prompt if self._length is None else None, before[start:]]
            # Where p differs between two visits of a context, its newest value is the prior's mean.
            seen[:, at, 0] = counts[cell] / max(float(place.probs[cell]), TINY), counts.total()
            counts[cell] += 1
        self._play(text, lambda weight: (seen[0] + weight) / (seen[1] + weight))


@final
class Rates(Bet):
    """Bets on how often a kind of token is written, whatever it is and follows, by Gamma priors.

    index: of a way to tell tokens apart, as `Place.kinds` has them.
    """

    def __init__(self, index: int) -> None:
        super().__init__()
        self._index = index
        self._written: Any = 0.0
        self._due: Any = 0.0

    def see(self, prompt: Hashable, text: Sequence[Written]) -> None:
        kinds = [int(place.kinds[self._index][0](place.cell(token))) for place, token in text]
        due = np.array([place.kinds[self._index][1] for place, _ in text])  # [token, kind]
        written = np.eye(due.shape[1])[kinds]
        before = [self._written + written.cumsum(0) - written, self._due + due.cumsum(0) - due]

        def likelier(weight: np.ndarray) -> np.ndarray:
            seen, expected = (each[:, :, None] + weight[:, None, :] for each in before)
            rates = seen / expected
            means = (due[:, :, None] * rates).sum(1)
            return np.asarray((written[:, :, None] * rates).sum(1) / means)

        self._play(text, likelier)
        self._written, self._due = self._written + written.sum(0), self._due + due.sum(0)


@final
class Bets:
    """Gamblers against one distribution, none of whom knows what is wrong."""

    def __init__(self) -> None:
        self._played: list[Bet] = [*map(Rates, range(5)), *map(Learned, (None, 0, 1, 2))]

    @property
    def growth(self) -> float:
        """Returns the logarithm of their mean fortune, a fortune itself."""
        return log_mean([bet.growth for bet in self._played])

    def see(self, prompt: Hashable, text: Sequence[Written]) -> None:
        for bet in self._played if text else ():
            bet.see(prompt, text)


def log_mean(logarithms: Sequence[float] | np.ndarray) -> float:
    """Returns the logarithm of the mean."""
    return float(np.logaddexp.reduce(logarithms) - math.log(len(logarithms)))
