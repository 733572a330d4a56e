"""Copies the source of an edited text, and realigns after each edit."""

import copy
from typing import Self, final

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.drafters.parts.texts.suffix_automaton import ROOT, SuffixAutomaton
from outrider.targets.passes.cached_model import SOURCE


@final
class ShallowAggressive(Drafter):
    """Copies the source that the text edits (shallow aggressive decoding, 2106.04970, section 3.1).

    The draft is the source itself. Once the text has left it, there is no draft until the end of
    the text occurs exactly once in the source; copying resumes after that occurrence.

    It needs a target with an encoder: without one, a drafter can't tell where the prompt ends.
    """

    needs: frozenset[str] = frozenset({SOURCE})

    def __init__(self) -> None:
        self._start_over(Tokens([]))

    def _start_over(self, source: Tokens) -> None:
        self._source, self._text = source, Tokens([])
        self._phrases = SuffixAutomaton()
        self._phrases.extend(source)
        self._match = ROOT, 0  # the longest suffix of the text that occurs in the source
        self._left = False  # whether the text is no beginning of the source

    def open(self) -> Self:
        text = copy.copy(self)
        text._start_over(Tokens([]))
        return text

    def propose(self, context: Context, pen: Pen) -> None:
        assert context.source is not None
        try:
            self._follow(context.tokens, context.source)
            # The text begins with the decoder's start token, which is not part of the copy.
            position = self._only_end() if self._left else len(self._text) - 1
        except BaseException:
            self._start_over(Tokens([]))  # an interruption leaves a wrong automaton
            raise
        while position is not None and position < len(self._source) and pen.open:
            pen.write(self._source[position])
            position += 1

    def _only_end(self) -> int | None:
        """Returns the position after the match in the source, None if it is not there once."""
        state, _ = self._match
        once = state != ROOT and self._phrases.count(state) == 1
        return self._phrases.first_end(state) if once else None

    def _follow(self, text: Tokens, source: Tokens) -> None:
        """Reads what is new since the last call, or everything if this is another text.

        Where the text has left its source, the shortest suffix of the text that occurs once there
        says where to go on. Longer ones that occur say the same, so the longest one decides.
        """
        if self._text.shared(text) < len(self._text) or source != self._source:
            self._start_over(source)
        for position in range(max(len(self._text), 1), len(text)):
            token = text[position]
            goes_on = position <= len(source) and token == source[position - 1]
            self._left = self._left or not goes_on
            self._match = self._phrases.step(*self._match, token)
        self._text = text
