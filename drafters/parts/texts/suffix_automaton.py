"""SuffixAutomaton: finds where a suffix of one text occurs in others, and what follows there."""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
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
    average, and a step of counting for each state that ends a suffix of the longer texts. These
    steps are made once for all tokens that are added together, so that a long text which repeats
    one phrase over and over takes no longer than another.
    """

    def __init__(self) -> None:
        self._next: list[dict[int, int]] = [{}]
        self._link = [ROOT]  # the state of the longest suffix that ends elsewhere too
        self._length = [0]  # of the longest phrase of the state
        self._count = [0]  # how often its phrases occur
        self._last = ROOT

    def extend(self, tokens: Iterable[int]) -> None:
        """Appends tokens to the text."""
        self._count_ends([self._append(token) for token in tokens])

    def _append(self, token: int) -> int:
        """Returns the state of the text with one more token, whose end is not yet counted."""
        last = self._appended(token)
        self._last = ROOT if token == END else last
        return last

    def _appended(self, token: int) -> int:
        if token in self._next[self._last]:  # an earlier text began like this one
            return self._split(self._last, token)
        state, last = self._last, self._add({}, self._length[self._last] + 1, 0)
        while token not in self._next[state]:
            self._next[state][token] = last
            if state == ROOT:
                break
            state = self._link[state]
        else:
            self._link[last] = self._split(state, token)
        return last

    def _count_ends(self, states: list[int]) -> None:
        """Counts an end of the text for each of some states, and for all suffixes of each.

        What two states pass on to the same suffix is added up first, so no state is met twice.
        """
        ends = dict.fromkeys(states, 1)
        queue = [(-self._length[state], state) for state in states]
        heapify(queue)  # longer phrases first: a suffix is shorter
        while queue:
            _, state = heappop(queue)
            count = ends.pop(state)
            self._count[state] += count
            suffix = self._link[state]
            if suffix == ROOT:
                continue
            if suffix not in ends:
                heappush(queue, (-self._length[suffix], suffix))
            ends[suffix] = ends.get(suffix, 0) + count

    def _split(self, state: int, token: int) -> int:
        """Returns the state of `state`'s longest phrase and `token`; makes one if there is none."""
        old = self._next[state][token]
        length = self._length[state] + 1
        if self._length[old] == length:
            return old
        new = self._add(dict(self._next[old]), length, self._count[old])
        self._link[new], self._link[old] = self._link[old], new
        while self._next[state].get(token) == old:
            self._next[state][token] = new
            if state == ROOT:
                break
            state = self._link[state]
        return new

    def _add(self, following: dict[int, int], length: int, count: int) -> int:
        self._next.append(following)
        self._link.append(ROOT)
        self._length.append(length)
        self._count.append(count)
        return len(self._next) - 1

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Returns the longest match of a phrase and a token: its state, and its length.

        state, length: the longest match of the phrase.
        """
        while state != ROOT and token not in self._next[state]:
            state = self._link[state]
            length = self._length[state]
        if token not in self._next[state]:
            return ROOT, 0
        return self._next[state][token], length + 1

    def repeated(self) -> tuple[int, int]:
        """Returns the longest suffix of the text that also occurs earlier: its state and length."""
        state = self._link[self._last]
        return state, self._length[state]

    def only_end(self, state: int) -> int | None:
        """Returns the position after the phrases of a state in the one text, None if not once."""
        # The longest phrase that occurs where the text's beginning of this length ends is that one.
        return self._length[state] if state != ROOT and self._count[state] == 1 else None

    def likeliest(self, state: int) -> tuple[int, int, float] | None:
        """Returns what follows the phrases of a state: the state after it, the token, its share.

        It is the most frequent token, and among equally frequent ones that which first occurred
        latest. The share is its count divided by that of all tokens that followed. Where nothing
        follows, shorter phrases decide; None if only the empty one is left.
        """
        while state != ROOT:
            following = {token: self._count[to] for token, to in self._next[state].items()}
            total = sum(following.values())
            following.pop(END, None)
            if following:
                token = max(reversed(following), key=following.__getitem__)
                return self._next[state][token], token, following[token] / total
            state = self._link[state]
        return None
