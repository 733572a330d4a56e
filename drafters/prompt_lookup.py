"""PromptLookup: copies what followed the last tokens when they stood in text or source before."""

from typing import final

from outrider.contract.context import Context, Tokens
from outrider.contract.drafter import Drafter
from outrider.contract.pen import Pen
from outrider.errors import is_int, require
from outrider.plugins.hookspecs import Register, hookimpl


@final
class PromptLookup(Drafter):
    """Prompt lookup decoding (Saxena 2023; LLMA, 2304.04487).

    Looks for the last n tokens at an earlier place of the text, from n = max_n down to min_n, and
    copies what followed. A copy that reaches the end of the text goes on with itself, as
    in LZ77, so that a periodic text continues. Where nothing matches, there is no draft. An
    encoder's source counts as standing before the text.

    newest: of several places take the latest; otherwise the first.

    Raises `ConfigError` unless 1 <= min_n <= max_n.
    """

    def __init__(self, max_n: int = 3, min_n: int = 1, newest: bool = True) -> None:
        some = is_int(min_n) and min_n >= 1
        require(some, "drafter.min_n", min_n, "a whole number of at least 1")
        some = is_int(max_n) and max_n >= min_n
        require(some, "drafter.max_n", max_n, f"a whole number of at least min_n={min_n}")
        self._sizes = range(max_n, min_n - 1, -1)
        self._newest = newest
        self._forget()

    def _forget(self) -> None:
        self._text = Tokens([])
        self._source: Tokens | None = None
        self._ids: list[int] = []  # of the source, and behind it of the text
        # For each n, from n tokens to the place behind them.
        self._places: dict[int, dict[tuple[int, ...], int]] = {n: {} for n in self._sizes}

    def propose(self, context: Context, pen: Pen) -> None:
        if not pen.open:
            return
        self._follow(context.tokens, context.source)
        place = self._find()
        copied: list[int] = []
        while place is not None and pen.open:
            past = place - len(self._ids)
            copied.append(pen.write(self._ids[place] if past < 0 else copied[past]))
            place += 1

    def _follow(self, text: Tokens, source: Tokens | None) -> None:
        """Takes in what is new since the last call; an earlier text that differs is forgotten."""
        if self._text.shared(text) < len(self._text) or source != self._source:
            self._forget()
            self._source = source
            self._ids += source or ()
        known = len(self._ids) if self._text else 0
        self._ids += text[len(self._text) :]
        # The tokens at the very end have nothing behind them yet, so they lead nowhere.
        for place in range(max(known, 1), len(self._ids)):
            for n in self._sizes:
                if n <= place:
                    before = tuple(self._ids[place - n : place])
                    if self._newest:
                        self._places[n][before] = place
                    else:
                        self._places[n].setdefault(before, place)
        self._text = text

    def _find(self) -> int | None:
        for n in self._sizes:
            if n < len(self._ids):
                place = self._places[n].get(tuple(self._ids[-n:]))
                if place is not None:
                    return place
        return None


@hookimpl
def register_drafters(register: Register) -> None:
    register("prompt_lookup", PromptLookup)
