"""Matches: where the last tokens of a growing text occurred before."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import final

from outrider.drafters.parts.texts.suffix_automaton import ROOT, SuffixAutomaton

SHORT = 8
"""Matches of up to so many tokens are looked up in tables, one for each number of tokens."""


class Matches(ABC):
    """Finds the longest earlier occurrence of a text's last n tokens, from max_n down to min_n.

    newest: whether to find the latest of several occurrences, or else the first.
    """

    def __init__(self, max_n: int, min_n: int, newest: bool) -> None:
        self.tokens: list[int] = []
        self._max_n, self._min_n, self._newest = max_n, min_n, newest

    def extend(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text."""
        for token in tokens:
            self._learn(token)
            self.tokens.append(token)

    @abstractmethod
    def _learn(self, token: int) -> None:
        """Notes which phrases the token follows. Nothing follows the text's last tokens yet."""

    @abstractmethod
    def after(self, written: list[int]) -> int | None:
        """Returns the position after the match of the last tokens, None without a match.

        written: tokens of a draft, which follow the text but are not matched against.
        """


def matches_of(max_n: int, min_n: int, newest: bool) -> Matches:
    """Returns those of an empty text."""
    return (ShortMatches if max_n <= SHORT else LongMatches)(max_n, min_n, newest)


@final
class ShortMatches(Matches):
    """Keeps the position after each phrase: work and memory in proportion to max_n."""

    def __init__(self, max_n: int, min_n: int, newest: bool) -> None:
        super().__init__(max_n, min_n, newest)
        self._after: dict[int, dict[tuple[int, ...], int]] = {
            n: {} for n in range(max_n, min_n - 1, -1)
        }

    def _learn(self, token: int) -> None:
        position = len(self.tokens)
        for n, after in self._after.items():
            if n <= position:
                before = tuple(self.tokens[-n:])
                if self._newest:
                    after[before] = position
                else:
                    after.setdefault(before, position)

    def after(self, written: list[int]) -> int | None:
        for n, after in self._after.items():
            if n < len(self.tokens):
                position = after.get(tuple((self.tokens[-n:] + written)[-n:]))
                if position is not None:
                    return position
        return None


@final
class LongMatches(Matches):
    """Follows the longest match through an automaton: work and memory don't depend on max_n."""

    def __init__(self, max_n: int, min_n: int, newest: bool) -> None:
        super().__init__(max_n, min_n, newest)
        self._phrases = SuffixAutomaton()  # of all but the last token
        self._match = ROOT, 0

    def _learn(self, token: int) -> None:
        self._phrases.extend(self.tokens[-1:])
        state, length = self._match
        if length == self._max_n:
            self._phrases.note_end(self._phrases.cut(state, length))
        self._match = self._longer(self._match, token)

    def after(self, written: list[int]) -> int | None:
        state, length = reduce(self._longer, written, self._match)
        if length < self._min_n:
            return None
        if not self._newest:
            return self._phrases.first_end(state)
        return self._phrases.newest_end(state, is_noted=length == self._max_n)

    def _longer(self, match: tuple[int, int], token: int) -> tuple[int, int]:
        """Returns the longest match of up to max_n tokens after one more token."""
        state, length = self._phrases.step(self._phrases.cut(*match), match[1], token)
        length = min(length, self._max_n)
        return self._phrases.cut(state, length), length
