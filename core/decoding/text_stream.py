"""TextStream: turns tokens into characters as they come, and finds stop strings in them."""

from collections.abc import Sequence
from typing import final

from outrider.base.errors import ConfigError, require
from outrider.base.pretrained import Tokenizer
from outrider.decoding.detokenizer import Detokenizer


@final
class TextStream:
    """The characters of one text, token by token.

    A character whose bytes are spread over several tokens appears with the last of them. The text
    ends with the first stop string that it contains, even in the middle of a token. As in
    transformers, a stop string may hold special tokens, though a text does not show them.

    stops: the strings, or a single one.
    before: the ids before the text, which decide whether it begins with a space.

    Raises `ConfigError` for an empty stop string, or for any stop string without a tokenizer.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        stops: str | Sequence[str] = (),
        before: Sequence[int] = (),
    ) -> None:
        if isinstance(stops, str):  # not one stop string for each of its characters
            stops = (stops,)
        require("" not in stops, "stop", "", "strings that are not empty")
        if stops and tokenizer is None:
            raise ConfigError(f"stop={list(stops)}: expected none, the target has no tokenizer")
        self._stops = tuple(stops)
        self._shown = None if tokenizer is None else Detokenizer(tokenizer, before)
        self._with_specials: Detokenizer | None = None
        if stops and tokenizer is not None:
            self._with_specials = Detokenizer(tokenizer, before, skip_special_tokens=False)
        self._all = ""  # the text with special tokens
        self.text: str = ""

    def push(self, token: int) -> tuple[str, bool]:
        """Returns the characters that are final with `token`, and whether they end the text."""
        if self._shown is None:
            return "", False
        before = len(self.text)
        self.text += self._shown.push(token)
        end = self._end(before, token)
        if end is not None:
            self.text = (self.text + self._shown.pending)[: max(before, end)]
            self._shown.pending = ""
        return self.text[before:], end is not None

    def finish(self) -> str:
        """Returns the characters that waited for tokens that will not come, now that it ends."""
        pending = "" if self._shown is None else self._shown.pending
        self.text += pending
        return pending

    def _end(self, before: int, token: int) -> int | None:
        """Returns the length of the text up to the first stop string; None if there is none.

        before: the length of the text before its newest piece.
        """
        if self._shown is None or self._with_specials is None:
            return None
        before_all = len(self._all)
        self._all += self._with_specials.push(token)
        text, whole = self.text + self._shown.pending, self._all + self._with_specials.pending
        ends = [] if (end := self._first_end(text, before)) is None else [end]
        if (end := self._first_end(whole, before_all)) is not None:
            rest = whole[end:]  # beyond the stop string
            ends.append(len(text) - len(rest) * text.endswith(rest))
        return min(ends, default=None)

    def _first_end(self, text: str, before: int) -> int | None:
        ends = [
            start + len(stop)
            for stop in self._stops
            # A stop string that ends within this piece starts at most its own length before.
            if (start := text.find(stop, max(0, before - len(stop) + 1))) >= 0
        ]
        return min(ends, default=None)
