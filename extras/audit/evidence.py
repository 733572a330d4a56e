"""Evidence by two samples, and what evidence would have been of a fault planted in the texts."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, final

import numpy as np

from outrider.extras.audit.client import Choice, Token
from outrider.extras.audit.martingale import DEPTH, class_of, log_mean

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


PULL = 16.0
"""How many tokens what both engines wrote counts for, in bets on what tells them apart."""

TRUST = np.array([0.1, 0.3, 1.0])
"""How far bets trust what tells texts apart."""

VOCABULARY = 1e5
"""Tokens that a text may hold, at most, where only texts are known."""

BLOCK = 16
"""Tokens before the first place where a text counts as being further on; the next are doubled."""

RECENT = 4
"""How many earlier texts of a prompt a text is held against, since they may share a seed."""

VIEWS = ("prefix", "token", "pair", "triple", "place", "recent", "listed")
"""What of a text is counted: its first tokens, tokens after none, one or two others, where they
stand, how many it has in common with the newest texts, and how likely they are, as it is listed."""


@final
class TwoSamples:
    """A bet on which of two texts of a request is by which engine.

    Where the engines have one distribution, either is as likely, whatever earlier texts have shown:
    a bettor who gives the right answer a chance of c, and has 2c of his fortune back, gains nothing
    on average (Podkopaev & Ramdas 2305.00143). The chance is learned from whole texts, by several
    views; the mean of the fortunes is kept.

    growths: the logarithms of the fortunes, by view and by how far it is trusted.
    """

    def __init__(self) -> None:
        self.growths: Any = np.zeros((len(VIEWS), len(TRUST)))
        self._counts: tuple[Counter[Hashable], Counter[Hashable]] = (Counter(), Counter())
        self._recent: defaultdict[Hashable, deque[Sequence[Token]]] = defaultdict(
            lambda: deque(maxlen=RECENT)
        )

    @property
    def growth(self) -> float:
        """Returns the logarithm of the mean fortune."""
        return log_mean(self.growths.ravel())

    def see(self, prompt: Hashable, mine: Choice, theirs: Choice) -> None:
        """Plays a text of each engine, which have answered the same request."""
        noted = [[*self._seen(prompt, text)] for text in (mine, theirs)]
        scores = [np.zeros(len(VIEWS)) for _ in noted]
        for score, places in zip(scores, noted, strict=True):
            for view, context, token in places:
                key = (view, context)
                score[view] += math.log(self._bet(key, token, 0) / self._bet(key, token, 1))
        certain = (scores[0] - scores[1])[:, None] * TRUST
        self.growths += math.log(2) - np.logaddexp(0, -certain)
        for counts, places in zip(self._counts, noted, strict=True):
            for view, context, token in places:
                counts[view, context] += 1
                counts[(view, context), token] += 1
        self._recent[prompt].append(mine.parts)

    def _seen(self, prompt: Hashable, choice: Choice) -> Iterator[tuple[int, Hashable, Hashable]]:
        """Yields what is counted of a text: a view, the context, and what was written in it."""
        text = choice.parts
        for at, token in enumerate(text):
            if at < DEPTH:
                yield 0, (prompt, *text[:at]), token
            yield 1, None, token
            yield 2, tuple(text[max(0, at - 1) : at]), token
            yield 3, tuple(text[max(0, at - 2) : at]), token
            yield 4, (at // BLOCK).bit_length(), token
        for back, other in enumerate(reversed(self._recent[prompt])):
            same = [one == two for one, two in zip(text, other, strict=False)]
            yield 5, back, [*same, False].index(False)
            yield 5, ("in all", back), sum(same) * 8 // max(len(same), 1)

        for row, token in zip(choice.likeliest, text, strict=False):
            best = max(row.values(), default=-math.inf)
            yield 6, class_of(best), class_of(row.get(token, -math.inf))

    def _bet(self, context: Hashable, token: Hashable, side: int) -> float:
        """Returns how likely a token is by what an engine wrote, drawn towards what both wrote."""
        key = (context, token)
        total = self._counts[0][context] + self._counts[1][context]
        both = (self._counts[0][key] + self._counts[1][key] + 1 / VOCABULARY) / (total + 1)
        return (self._counts[side][key] + PULL * both) / (self._counts[side][context] + PULL)
