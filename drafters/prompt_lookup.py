"""PromptLookup: copies what followed an earlier occurrence of the text's last tokens."""

import copy
from typing import ClassVar, Self, final

from outrider.base.bounds import Count, checked
from outrider.base.errors import require
from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter, DrafterExample
from outrider.contract.pen import Pen
from outrider.drafters.parts.texts.matches import matches_of


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
        self._matches = matches_of(*self._settings)  # in the source, then in the text

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
