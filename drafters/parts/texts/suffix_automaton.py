"""SuffixAutomaton: finds where a suffix of one text occurs in others, and what follows there."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import final

END = -1
"""Ends a text. No text has this id, and what is appended next begins another one."""
ROOT = 0
"""The state of the empty phrase."""


@final
class SuffixAutomaton:
    """The suffix automaton of texts, the last of which grows (Blumer et al. 1985), with counts.

    A state stands for the phrases that end at the same positions of the texts. There are at most
    twice as many states as tokens. No phrase spans two texts, so a text that comes again and again
    takes no more states (Mohri et al. 2009). Adding tokens takes constant time for each on
    average. Their ends are counted for ever shorter suffixes, and no further than what is asked
    for: the suffixes of a long text that repeats one phrase over and over are many, and mostly the
    longest are asked for.
    """

    def __init__(self) -> None:
        self._next: list[dict[int, int]] = [{}]
        self._link = [ROOT]  # the state of the longest suffix that ends elsewhere too
        self._length = [0]  # of the longest phrase of the state
        self._count = [0]  # how often its phrases occur, but for the ends to be counted
        self._first = [0]  # how many tokens were there where its phrases first ended
        self._newest = [0]  # and where they last did, but for the ends to be counted
        self._ends: dict[int, tuple[int, int]] = {}  # to be counted: how many, and the newest
        self._queue: list[tuple[int, int]] = []  # the states that have them, longer phrases first
        self._size = 0
        self._last = ROOT

    def extend(self, tokens: Iterable[int]) -> None:
        """Appends tokens to the text."""
        for token in tokens:
            self._size += 1
            last = self._appended(token)
            self._count_later(last, 1, self._size)
            self._last = ROOT if token == END else last

    def _appended(self, token: int) -> int:
        if token in self._next[self._last]:  # an earlier text began like this one
            return self._split(self._last, token)
        state, last = self._last, self._add({}, self._length[self._last] + 1)
        while token not in self._next[state]:
            self._next[state][token] = last
            if state == ROOT:
                break
            state = self._link[state]
        else:
            self._link[last] = self._split(state, token)
        return last

    def _count_later(self, state: int, ends: int, newest: int) -> None:
        """Counts some ends for the phrases of a state and all their suffixes, when asked for."""
        if state in self._ends:
            others, latest = self._ends[state]
            ends, newest = ends + others, max(newest, latest)
        else:
            heappush(self._queue, (-self._length[state], state))
        self._ends[state] = ends, newest

    def count(self, state: int) -> int:
        """Returns how often the phrases of a state occur."""
        # Only longer phrases have it as a suffix. What two of them pass on to one is added up
        # first, so none is met twice.
        while self._queue and -self._queue[0][0] >= self._length[state]:
            _, longer = heappop(self._queue)
            ends, newest = self._ends.pop(longer)
            self._count[longer] += ends
            self._newest[longer] = max(self._newest[longer], newest)
            if longer != ROOT:
                self._count_later(self._link[longer], ends, newest)
        return self._count[state]

    def first_end(self, state: int) -> int:
        """Returns the position after the first occurrence of a state's phrases in the one text."""
        return self._first[state]

    def newest_end(self, state: int, *, is_noted: bool) -> int:
        """Returns the position after their latest occurrence.

        is_noted: whether `note_end` was called for each but the first, which is quicker than to
            count down to a short suffix of a long one each time.
        """
        if not is_noted:
            self.count(state)
        return self._newest[state]

    def note_end(self, state: int) -> None:
        """Notes that a state's phrases end with the text."""
        self._newest[state] = self._size

    def _split(self, state: int, token: int) -> int:
        """Returns the state of `state`'s longest phrase and `token`; makes one if there is none."""
        old = self._next[state][token]
        length = self._length[state] + 1
        if self._length[old] == length:
            return old
        new = self._add(dict(self._next[old]), length, old)
        self._link[new], self._link[old] = self._link[old], new
        while self._next[state].get(token) == old:
            self._next[state][token] = new
            if state == ROOT:
                break
            state = self._link[state]
        return new

    def _add(self, following: dict[int, int], length: int, like: int | None = None) -> int:
        """Adds a state; its phrases have occurred where those of another one did, or end here."""
        self._next.append(following)
        self._link.append(ROOT)
        self._length.append(length)
        self._count.append(0 if like is None else self._count[like])
        self._first.append(self._size if like is None else self._first[like])
        self._newest.append(self._size if like is None else self._newest[like])
        return len(self._next) - 1

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Returns the longest match of a matched phrase and a token: its state, and its length."""
        while state != ROOT and token not in self._next[state]:
            state = self._link[state]
            length = self._length[state]
        if token not in self._next[state]:
            return ROOT, 0
        return self._next[state][token], length + 1

    def cut(self, state: int, length: int) -> int:
        """Returns the state of a match's last `length` tokens."""
        while self._length[self._link[state]] >= length > 0:
            state = self._link[state]
        return state

    def repeated(self) -> tuple[int, int]:
        """Returns the longest suffix of the text that also occurs earlier: its state and length."""
        state = self._link[self._last]
        return state, self._length[state]

    def likeliest(self, state: int) -> tuple[int, int, float] | None:
        """Returns what follows the phrases of a state: the state after it, the token, its share.

        It is the most frequent token, and among equally frequent ones that which first occurred
        latest. The share is its count divided by that of all tokens that followed. Where nothing
        follows, shorter phrases decide; None if only the empty one is left.
        """
        while state != ROOT:
            following = {token: self.count(to) for token, to in self._next[state].items()}
            total = sum(following.values())
            following.pop(END, None)
            if following:
                token = max(reversed(following), key=following.__getitem__)
                return self._next[state][token], token, following[token] / total
            state = self._link[state]
        return None
