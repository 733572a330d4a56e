"""PromptLookup: copies what followed an earlier occurrence of the text's last tokens."""

import copy
from collections.abc import Sequence
from functools import reduce
from typing import ClassVar, Self, final

from outrider.base.bounds import Count, checked
from outrider.base.errors import require
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter, DrafterExample
from outrider.contract.pen import Pen
from outrider.drafters.parts.texts.suffix_automaton import ROOT, SuffixAutomaton


@final
class Matches:
    """Finds the longest earlier occurrence of a text's last n tokens, from max_n down to min_n.

    It follows the longest match through an automaton: work and memory don't depend on max_n.

    newest: whether to find the latest of several occurrences, or else the first.
    """

    def __init__(self, max_n: int, min_n: int, newest: bool) -> None:
        self.tokens: list[int] = []
        self._max_n, self._min_n, self._newest = max_n, min_n, newest
        self._phrases = SuffixAutomaton()  # of all but the last token
        self._match = ROOT, 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text."""
        for token in tokens:
            self._phrases.extend(self.tokens[-1:])
            state, length = self._match
            if length == self._max_n:
                self._phrases.note_end(self._phrases.cut(state, length))
            self._match = self._longer(self._match, token)
            self.tokens.append(token)

    def after(self, written: list[int]) -> int | None:
        """Returns the position after the match of the last tokens, None without a match.

        written: tokens of a draft, which follow the text but are not matched against.
        """
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


@final
class PromptLookup(Drafter):
    """Prompt lookup: copies what followed the same words before (Saxena 2023; LLMA, 2304.04487).

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
        self._settings = max_n, min_n, newest
        self._forget()

    def _forget(self) -> None:
        self._text = Tokens([])
        self._source: Tokens | None = None
        self._matches = Matches(*self._settings)  # in the source, then in the text

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

    def _follow(self, text: Tokens, source: Tokens | None) -> None:
        """Adds what is new since the last call, or everything if this is another text."""
        if self._text.shared(text) < len(self._text) or source != self._source:
            self._forget()
            self._source = source
            self._matches.extend(source or ())
        self._matches.extend(text[len(self._text) :])
        self._text = text

    def _copy(self, pen: Pen) -> None:
        """Writes what a constraint forces, and elsewhere copies as long as it allows the copy."""
        tokens, written = self._matches.tokens, list[int]()
        position = self._matches.after(written)
        while pen.open:
            guide = pen.guide()
            forced = [] if guide is None else guide.forced()
            if forced:
                written += [pen.write(token) for token in forced if pen.open]
                position = self._matches.after(written)
                continue
            if position is None:
                return
            past_end = position - len(tokens)
            token = tokens[position] if past_end < 0 else written[past_end]
            if guide is not None and not guide.allows(token, pen.vocab_size):
                return
            written.append(pen.write(token))
            position += 1
