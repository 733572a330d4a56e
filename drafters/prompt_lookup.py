"""PromptLookup: copies what followed an earlier occurrence of the text's last tokens."""

import copy
from functools import reduce
from typing import ClassVar, Self, final

from outrider.base.bounds import Count, checked
from outrider.base.errors import require
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter, DrafterExample
from outrider.contract.pen import Pen
from outrider.drafters.parts.texts.suffix_automaton import ROOT, SuffixAutomaton

KEY = 8
"""Matches of up to so many tokens are looked up in tables, one for each number of tokens."""


@final
class PromptLookup(Drafter):
    """Prompt lookup decoding (Saxena 2023; LLMA, 2304.04487).

    Looks for an earlier occurrence of the text's last n tokens, from n = max_n down to min_n, and
    copies what followed it. A copy that reaches the end of the text continues with itself, as in
    LZ77, so a periodic text goes on. If nothing matches, there is no draft. An encoder's source
    counts as coming before the text. Where a constraint forces the next tokens, such as the keys of
    a JSON schema, it drafts these, and it ends a copy that the constraint forbids.

    max_n, min_n: the longest and the shortest match.
    newest: whether to copy from the latest of several occurrences, or else from the first.

    Raises `ConfigError` unless 1 <= min_n <= max_n.
    """

    examples: ClassVar[tuple[DrafterExample, ...]] = (
        DrafterExample(text=(1, 2, 3, 1, 2), draft=(3, 1, 2, 3)),
        DrafterExample(text=(1, 2, 1, 2), draft=(1, 2, 1, 2, 1), gamma=5),
        DrafterExample(text=(4, 4), draft=(4, 4, 4), gamma=3),
        DrafterExample(text=(1, 2, 9, 5, 2, 7, 1, 2), draft=(9, 5), gamma=2),  # the longer match
        DrafterExample(text=(1, 2, 3), draft=()),
        DrafterExample(text=(1, 2, 3, 1, 2, 4, 1, 2), draft=(4, 1), gamma=2),
        DrafterExample(
            text=(1, 2, 3, 1, 2, 4, 1, 2), draft=(3, 1), gamma=2, settings={"newest": False}
        ),
    )

    @checked("drafter")
    def __init__(self, max_n: int = 3, min_n: Count = 1, newest: bool = True) -> None:
        require(max_n >= min_n, "drafter.max_n", max_n, f"a whole number of at least min_n={min_n}")
        self._max_n, self._min_n = max_n, min_n
        self._sizes = range(max_n, min_n - 1, -1) if max_n <= KEY else range(0)
        self._newest = newest
        self._forget()

    def _forget(self) -> None:
        self._text = Tokens([])
        self._source: Tokens | None = None
        self._ids: list[int] = []  # of the source, then of the text
        # For each n, the position after an occurrence of n tokens.
        self._after: dict[int, dict[tuple[int, ...], int]] = {n: {} for n in self._sizes}
        # For matches of more than `KEY` tokens: all but the last token, and the longest match.
        self._phrases, self._matched = SuffixAutomaton(), (ROOT, 0)

    def open(self) -> Self:
        text = copy.copy(self)
        text._forget()
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        if not pen.open:
            return
        try:
            self._follow(context.tokens, context.source)
        except BaseException:
            self._forget()  # an interruption leaves a wrong index
            raise
        self._copy(pen)

    def _copy(self, pen: Pen) -> None:
        """Writes what a constraint forces, and elsewhere copies as long as it allows the copy."""
        written: list[int] = []
        position = self._match(written)
        while pen.open:
            guide = pen.guide()
            forced = [] if guide is None else guide.forced()
            if forced:
                written += [pen.write(token) for token in forced if pen.open]
                position = self._match(written)
                continue
            if position is None:
                return
            past_end = position - len(self._ids)
            token = self._ids[position] if past_end < 0 else written[past_end]
            if guide is not None and not guide.allows(token, pen.vocab_size):
                return
            written.append(pen.write(token))
            position += 1

    def _follow(self, text: Tokens, source: Tokens | None) -> None:
        """Indexes what is new since the last call, or everything if this is another text."""
        if self._text.shared(text) < len(self._text) or source != self._source:
            self._forget()
            self._source = source
            self._ids += source or ()
        known = len(self._ids) if self._text else 0
        self._ids += text[len(self._text) :]
        # Nothing follows the last tokens yet, so they are indexed in the next call.
        for position in range(max(known, 1), len(self._ids)):
            for n in self._sizes:
                if n <= position:
                    before = tuple(self._ids[position - n : position])
                    if self._newest:
                        self._after[n][before] = position
                    else:
                        self._after[n].setdefault(before, position)
        for position in range(known, len(self._ids) if self._max_n > KEY else 0):
            self._phrases.extend(self._ids[max(position - 1, 0) : position])
            state, length = self._matched
            if length == self._max_n:
                self._phrases.note_end(self._phrases.cut(state, length))
            self._matched = self._longer(self._matched, self._ids[position])
        self._text = text

    def _longer(self, match: tuple[int, int], token: int) -> tuple[int, int]:
        """Returns the longest match of up to max_n tokens after one more token."""
        state, length = self._phrases.step(self._phrases.cut(*match), match[1], token)
        length = min(length, self._max_n)
        return self._phrases.cut(state, length), length

    def _match(self, written: list[int]) -> int | None:
        """Returns the position after the longest match of the last tokens, None without a match.

        written: the draft so far, which follows the text.
        """
        if self._max_n > KEY:
            state, length = reduce(self._longer, written, self._matched)
            if length < self._min_n:
                return None
            if not self._newest:
                return self._phrases.first_end(state)
            return self._phrases.newest_end(state, is_noted=length == self._max_n)
        for n in self._sizes:
            if n < len(self._ids):
                position = self._after[n].get(tuple((self._ids[-n:] + written)[-n:]))
                if position is not None:
                    return position
        return None
