"""Evidence against a distribution that may be looked at after every token, and stopped at any time.

Each test is a gambler's fortune: it begins at 1, and a fair game can't make it grow, except by a
chance of at most 1 / f to ever reach f (Ville's inequality; Ramdas et al. 2210.01948). Tokens are
what is bet on: a bet on a distribution q multiplies the fortune by q(token) / p(token).
"""

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Float

from outrider.extras.audit.client import Token

TILTS = np.array([-0.5, -0.25, -0.1, 0.1, 0.25, 0.5, 1.0])
"""By how much the bets on a feature of tokens raise their log-probability for each unit of it."""

SIGNS = np.sign(TILTS)

NEW = 2
"""How many tokens a token is new for: those that a draft may have before the one that is bet on."""

WEIGHTS = (8.0, 64.0)
"""How many tokens the expected distribution counts for, in bets on what was written before."""

DEPTH = 3
"""The most tokens that a text is expected to share with others of its prompt."""

LOOSER = 4.0
"""How many times the variance of rounding a bet expects at least."""

MOVED = 2.0
"""By how many standard deviations rounding is taken to move the log-odds of a kind of tokens."""

TINY = 1e-300
"""Stands for a probability of 0, whose logarithm there is none of."""


@final
@dataclass(frozen=True, slots=True)
class Observation:
    """A token, and the distribution that it should have been drawn from.

    probs: of the tokens in `cells`. A last cell without a token stands for all others.
    token: the one that was written.
    before: the tokens that the text has before it.
    beside: the token that another text of the same batch has at this position, if any.
    noise: the standard deviation of what rounding adds to the logarithms of `probs`.
    index, prob: its cell, and the probability of that.
    """

    probs: Float[np.ndarray, "cells"]
    cells: Mapping[Token, int]
    token: Token
    before: tuple[Token, ...]
    beside: Token | None = None
    noise: float = 0.0
    index: int = field(init=False)
    prob: float = field(init=False)

    def __post_init__(self) -> None:
        index = self.cells.get(self.token, len(self.probs) - 1)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "prob", max(float(self.probs[index]), TINY))


class Bet(ABC):
    """A gambler."""

    @property
    @abstractmethod
    def growth(self) -> float:
        """Returns the logarithm of the fortune."""

    @abstractmethod
    def see(self, prompt: Hashable, text: Sequence[Observation]) -> None:
        """Plays the tokens of a text. What is bet on each depends on those before."""


@final
class Learned(Bet):
    """Bets on what was written in the same context before: the Bayes factor of a Dirichlet prior.

    length: how many of the newest tokens make the context. None for the prompt and all of them, as
        long as they are few: no two texts agree for long.
    weight: how many tokens the expected distribution counts for.
    """

    def __init__(self, length: int | None, weight: float) -> None:
        self._length, self._weight = length, weight
        self._counts: defaultdict[Hashable, Counter[int]] = defaultdict(Counter)
        self._totals: Counter[Hashable] = Counter()
        self._exact = self._rounded = 0.0

    @property
    def growth(self) -> float:
        return min(self._exact, self._rounded)

    def see(self, prompt: Hashable, text: Sequence[Observation]) -> None:
        for observed in text:
            context = self._context(prompt, observed.before)
            if context is None:
                continue
            index = observed.index
            counts, total, base = self._counts[context], self._totals[context], observed.prob
            firm = observed.noise**-2 if observed.noise else math.inf
            weight = min(self._weight, firm / LOOSER)
            # Where p differs between two visits of a context, its newest value is the prior's mean.
            bet = (counts[index] + weight * base) / (total + weight)
            self._exact += math.log(bet) - math.log(base)
            # Rounding may be the same at each visit: what is to be expected of it is learned, too.
            fair = base if math.isinf(firm) else (counts[index] + firm * base) / (total + firm)
            self._rounded += math.log(bet) - math.log(fair)
            counts[index] += 1
            self._totals[context] += 1

    def _context(self, prompt: Hashable, before: tuple[Token, ...]) -> Hashable | None:
        if self._length is None:
            return (prompt, before) if len(before) <= DEPTH else None
        start = len(before) - self._length
        return before[start:] if start >= 0 else None


@final
class Tilted(Bet):
    """Bets that a kind of token is likelier, or less likely, than it should be, by several amounts.

    kind: "likely" tilts the distribution itself, as another temperature would; "last" is the token
        just before, "written" any token of the text before, "new" one that it has only had since a
        few tokens, "beside" that of another text.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._growths = np.zeros(len(TILTS))

    @property
    def growth(self) -> float:
        return log_mean(self._growths)

    def see(self, prompt: Hashable, text: Sequence[Observation]) -> None:
        if not text:
            return
        if self._kind == "likely":
            probs = np.concatenate([observed.probs for observed in text])
            ends = np.cumsum([len(observed.probs) for observed in text])
            logs = np.log(probs, where=probs > 0, out=np.full_like(probs, -np.inf))
            wholes = [np.add.reduceat(np.exp(logs * (1 + t)), [0, *ends[:-1]]) for t in TILTS]
            written = sum(math.log(observed.prob) for observed in text)
            self._growths += written * TILTS - np.log(wholes).sum(-1)
            return
        chosen = [self._chosen(observed) for observed in text]
        pairs = zip(text, chosen, strict=True)
        shares = np.array([sum(observed.probs[list(cells)]) for observed, cells in pairs])
        hits = [observed.index in cells for observed, cells in zip(text, chosen, strict=True)]
        played = (shares > 0) & (shares < 1)
        noise = np.array([observed.noise for observed in text])[played, None]
        odds = (shares / (1 - shares + ~played))[played, None] * np.exp(MOVED * noise * SIGNS)
        self._growths += TILTS * np.sum(hits, where=played)
        self._growths -= np.log1p(odds / (1 + odds) * np.expm1(TILTS)).sum(0)

    def _chosen(self, observed: Observation) -> set[int]:
        """Returns the cells of the tokens of this kind."""
        before = observed.before
        kinds: Mapping[str, Iterable[Token | None]] = {
            "last": before[-1:],
            "written": before,
            "new": {*before[-NEW:]} - {*before[:-NEW]},
            "beside": (observed.beside,),
        }
        tokens, cells = kinds[self._kind], observed.cells
        return {cells[token] for token in tokens if token is not None and token in cells}


@final
class Bets:
    """Gamblers against one distribution, none of whom knows what is wrong.

    played: the gamblers. Defaults to those of every kind.
    """

    def __init__(self, played: Sequence[Bet] = ()) -> None:
        kinds = map(Tilted, ("likely", "last", "written", "new", "beside"))
        self._played = played or [*_learned(), *kinds]

    @property
    def growth(self) -> float:
        """Returns the logarithm of their mean fortune, a fortune itself."""
        return log_mean([bet.growth for bet in self._played])

    def see(self, prompt: Hashable, text: Sequence[Observation]) -> None:
        for bet in self._played:
            bet.see(prompt, text)


def learned() -> Bets:
    """Returns gamblers who bet on what they have seen."""
    return Bets(_learned())


def _learned() -> list[Learned]:
    return [Learned(length, weight) for length in (None, 0, 1, 2) for weight in WEIGHTS]


def log_mean(logarithms: Sequence[float] | np.ndarray) -> float:
    """Returns the logarithm of the mean."""
    return float(np.logaddexp.reduce(logarithms) - math.log(len(logarithms)))


@final
class Suspicions:
    """Fortunes that have become suspicious, and how far they have grown since.

    Evidence that is suspicious is not enough: texts that come after it have to confirm it.

    One of `count` fortunes is suspicious once it reaches count / level, and confirmed once it is
    1 / level times what it was then. Where there is no fault, the first happens with a chance of
    at most `level`, and then the second with at most `level` again: a fortune that goes on from
    where it is, is as fair as a new one.

    again: the logarithm of 1 / level. needed: that of a fortune that is suspicious.
    confirmed: the names of the fortunes that are confirmed.
    """

    def __init__(self, level: float, count: int) -> None:
        self.again: float = -math.log(level)
        self.needed: float = self.again + math.log(max(count, 1))
        self.confirmed: set[str] = set()
        self._since: dict[str, float] = {}

    def see(self, growths: Mapping[str, float]) -> None:
        """Looks at the logarithms of all fortunes, as often as one likes."""
        for name, growth in growths.items():
            if name in self._since and growth >= self._since[name] + self.again:
                self.confirmed.add(name)
            elif growth >= self.needed:
                self._since.setdefault(name, growth)
